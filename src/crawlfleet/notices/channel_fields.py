"""Checks of the fields of channels: addresses, secrets that are none, and values with a length."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qsl, urlsplit

from crawlfleet.errors import InvalidInput
from crawlfleet.network.address_guard import AddressGuard, AddressRefused
from crawlfleet.ports.notice_channel import ChannelField

FIELD_CHARS = 2_000
SECRET_BYTES_MIN, SECRET_BYTES_MAX = 24, 64
_WEBHOOK_SECRET = "whsec_"
_PLACEHOLDERS = re.compile(
    r"""^(change[-_ ]?me.*|.*your[-_ ]?(access[-_ ]?)?(token|secret|key|password|webhook|url|hook).*|placeholder|example
    |dummy|todo|tbd|test|token|secret|password|passwd|key|none|null|x{3,}|\*+|\.{3,}|<.*>|\$\{.*\}|\{\{.*\}\}|(?P<same>.)(?P=same)+)$
    |x{6,}|\*{3,}""",
    re.IGNORECASE | re.VERBOSE,
)
_PORTS = {"http": 80, "https": 443}


class ServiceAddress(NamedTuple):
    """An address that was pasted by a person, in its parts."""

    origin: str
    """Scheme, host and port, such as `https://oapi.dingtalk.com`."""
    path: str
    parameters: Mapping[str, str]


def check_known_fields(kind_fields: Mapping[str, ChannelField], given: Mapping[str, str]) -> dict[str, str]:
    """Return the given values without space around them. Raises InvalidInput for unknown, missing and unusable ones."""
    for name in given:
        if name not in kind_fields:
            raise InvalidInput(f"unknown field: this kind of channel has {', '.join(kind_fields)}", field=name)
    values: dict[str, str] = {}
    for name, field in kind_fields.items():
        value = given.get(name, "").strip()
        if not value:
            if field.is_required:
                raise InvalidInput(f"is needed: {field.about}", field=name)
            continue
        if len(value) > FIELD_CHARS:
            raise InvalidInput(f"is longer than {FIELD_CHARS} characters", field=name)
        if any(char < " " or char == "\x7f" or "\ud800" <= char <= "\udfff" for char in value):
            raise InvalidInput("has control characters", field=name)
        if field.is_secret:
            check_secret(name, value)
        values[name] = value
    return values


def check_secret(name: str, value: str) -> None:
    """Raise InvalidInput for a value that stands for a secret and is none, without quoting it."""
    if _PLACEHOLDERS.search(value):
        raise InvalidInput("is a placeholder: paste the value that the service shows", field=name)


def parse_address(name: str, value: str, guard: AddressGuard) -> ServiceAddress:
    """Parse an address of a channel. Raises InvalidInput, without quoting the address, which is a secret."""
    try:
        parts = urlsplit(value)
        port = parts.port or _PORTS.get(parts.scheme, 0)
        host = parts.hostname or ""
    except ValueError as exc:
        raise InvalidInput("is no address", field=name) from exc
    if parts.scheme not in _PORTS or not host or any(char.isspace() for char in value):
        raise InvalidInput("has to be an address that begins with https://", field=name)
    if parts.username or parts.password:
        raise InvalidInput("must not contain a user name or password", field=name)
    check_host(name, host, port, guard)
    if parts.scheme == "http" and not guard.is_listed(host, port):
        raise InvalidInput(
            f"http:// would send secrets in the clear: use https://, or list {host} in alert_allow_hosts", field=name
        )
    return ServiceAddress(_origin(parts), parts.path, dict(parse_qsl(parts.query)))


def check_host(name: str, host: str, port: int, guard: AddressGuard) -> None:
    """Raise InvalidInput for a host that is an address which may not be connected to; names are judged when used."""
    try:
        guard.check_literal(host, port)
    except AddressRefused as exc:
        raise InvalidInput(str(exc), field=name) from exc


def check_token(name: str, value: str, service: str) -> str:
    """Check the token of a robot: it becomes a part of an address. Raises InvalidInput without quoting it."""
    check_secret(name, value)
    if not re.fullmatch(r"[A-Za-z0-9_-]{8,200}", value):
        raise InvalidInput(f"is no token of {service}: paste the whole address that it shows for the robot", field=name)
    return value


def parse_webhook_secret(name: str, value: str) -> bytes:
    """Decode a secret of Standard Webhooks. Raises InvalidInput, without quoting it, for one that is too short."""
    how = "make one with: echo whsec_$(openssl rand -base64 32)"
    if not value.startswith(_WEBHOOK_SECRET):
        raise InvalidInput(f"has to begin with {_WEBHOOK_SECRET}; {how}", field=name)
    encoded = value.removeprefix(_WEBHOOK_SECRET)
    try:
        key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError) as exc:
        raise InvalidInput(f"is no base64 after {_WEBHOOK_SECRET}; {how}", field=name) from exc
    if not SECRET_BYTES_MIN <= len(key) <= SECRET_BYTES_MAX:
        bounds = f"{SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes"
        raise InvalidInput(f"has {len(key)} bytes, and needs {bounds}; {how}", field=name)
    if len(set(key)) < 8:
        raise InvalidInput(f"is a placeholder; {how}", field=name)
    return key


def _origin(parts: SplitResult) -> str:
    return f"{parts.scheme}://{parts.netloc}"
