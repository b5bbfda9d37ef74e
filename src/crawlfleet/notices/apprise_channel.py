"""The services that apprise knows and crawlfleet has no adapter for.

Apprise judges a service by the HTTP status alone, so that "delivered" means less here than elsewhere. For that reason
the services with an adapter of our own are not among the schemes, and neither are those that write to this machine.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import sys
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from crawlfleet.errors import InvalidInput
from crawlfleet.model.instants import Instant
from crawlfleet.model.notice import Language, Notice, NoticeState, Severity
from crawlfleet.network.address_guard import AddressGuard
from crawlfleet.notices.channel_fields import check_secret
from crawlfleet.notices.dialects import PLAIN, cut_title, lay_out
from crawlfleet.notices.http_channel import hide_secrets
from crawlfleet.notices.secret_filter import SecretFilter
from crawlfleet.notices.texts import write_notice
from crawlfleet.ports.notice_channel import SEND_S, Delivery

SCHEMES = frozenset(
    [
        "barks",
        "betterstack",
        "brevo",
        "discord",
        "flock",
        "gchat",
        "goalerts",
        "gotifys",
        "groupme",
        "hassios",
        "ifttt",
        "ilert",
        "incidentio",
        "join",
        "line",
        "mailgun",
        "matrixs",
        "mmosts",
        "msgbird",
        "ntfys",
        "o365",
        "opsgenie",
        "pagerduty",
        "pagertree",
        "pbul",
        "postmark",
        "pover",
        "prowl",
        "pushdeers",
        "pushplus",
        "resend",
        "rockets",
        "schan",
        "sendgrid",
        "ses",
        "signl4",
        "simplepush",
        "sns",
        "spike",
        "splunk",
        "spush",
        "squadcast",
        "synologys",
        "tgram",
        "twilio",
        "twist",
        "victorops",
        "vonage",
        "webex",
        "whatsapp",
        "workflows",
        "wxpusher",
        "wxteams",
        "xmatters",
        "zulip",
    ]
)
"""The services that may be used, each over TLS."""
PLAIN_SCHEMES = frozenset({"bark", "gotify", "hassio", "matrix", "mmost", "ntfy", "pushdeer", "rocket", "synology"})
"""The same services without TLS: only for hosts that `alert_allow_hosts` names."""
TEXT_BYTES = 4_000
_TITLE_BYTES = 250
_OUTPUT_BYTES = 64 << 10
_KINDS = {Severity.INFO: "info", Severity.WARNING: "warning", Severity.CRITICAL: "failure"}
_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "PYTHONPATH")
"""Variables that the process gets. Proxies are not among them: they would connect where the guard cannot look."""


class AppriseChannel:
    """Sends notices through apprise, each in a process that ends at the deadline."""

    def __init__(
        self, url: str, allow_hosts: Sequence[str], hint: str, language: Language, *, send_s: float = SEND_S
    ) -> None:
        self._url = url
        self._allow_hosts = list(allow_hosts)
        self._hint = hint
        self._language = language
        self._send_s = send_s
        self._secrets = SecretFilter([url])

    async def send(self, notice: Notice, now: Instant) -> Delivery:
        text = write_notice(notice, self._language)
        order = {
            "url": self._url,
            "title": cut_title(text, _TITLE_BYTES),
            "body": lay_out(text, PLAIN, TEXT_BYTES),
            "kind": "success" if notice.state is NoticeState.RECOVERED else _KINDS[notice.severity],
            "allow_hosts": self._allow_hosts,
            "hint": self._hint,
        }
        return hide_secrets(await self._run(json.dumps(order).encode()), self._secrets)

    async def close(self) -> None:
        """Hold nothing: each notice has a process of its own."""

    async def _run(self, order: bytes) -> Delivery:
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        # The order goes through a pipe: arguments and environment are shown to every user of the machine.
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "crawlfleet.notices.apprise_process",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(self._send_s):
                output, _ = await process.communicate(order)
        except TimeoutError:
            return Delivery(is_delivered=False, answer=f"no answer within {self._send_s:g} s")
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return _read_report(output[:_OUTPUT_BYTES])


def check_apprise_url(value: str, guard: AddressGuard) -> str:
    """Check the address of a service. Raises InvalidInput, without quoting the address."""
    if importlib.util.find_spec("apprise") is None:
        raise InvalidInput("needs the extra: pip install 'crawlfleet[notices]'", field="kind")
    check_secret("url", value)
    scheme, separator, rest = value.partition("://")
    scheme = scheme.lower()
    if not separator or not rest:
        raise InvalidInput("has to be an address of apprise, such as tgram://TOKEN/CHAT", field="url")
    if scheme in PLAIN_SCHEMES:
        host, port = _host_port(rest)
        if not guard.is_listed(host, port):
            raise InvalidInput(
                f"{scheme}:// would send in the clear: use {scheme}s://, or list the host in alert_allow_hosts",
                field="url",
            )
    elif scheme not in SCHEMES:
        raise InvalidInput(f"{scheme[:30]!r} is none of: {', '.join(sorted(SCHEMES))}", field="url")
    return f"{scheme}://{rest}"


def _host_port(rest: str) -> tuple[str, int]:
    try:
        parts = urlsplit(f"http://{rest}")
        return parts.hostname or "", parts.port or 80
    except ValueError as exc:
        raise InvalidInput("is no address", field="url") from exc


def _read_report(output: bytes) -> Delivery:
    try:
        report: Any = json.loads(output)
        is_sent, words = report["is_sent"] is True, str(report["words"])
        is_permanent = report["is_permanent"] is True
    except (ValueError, KeyError, TypeError):
        return Delivery(is_delivered=False, answer="the process of apprise ended without an answer")
    return Delivery(
        is_delivered=is_sent,
        answer=words or ("accepted" if is_sent else "apprise reports a failure without words"),
        is_permanent=is_permanent and not is_sent,
    )
