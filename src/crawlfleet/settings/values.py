"""Types of setting values: how text from a variable or a flag is parsed, and what is refused."""

from __future__ import annotations

import ipaddress
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field

from crawlfleet.model import limits
from crawlfleet.model.host import crawl_host
from crawlfleet.model.requirement import canonical_resources
from crawlfleet.observe.log_level import parse_level

# The text with which the source document shows where a key belongs; a file that still has it has no key.
PLACEHOLDER_KEYS = frozenset({"your-secure-api-key-here"})


def _split_list(value: object) -> object:
    if not isinstance(value, str):
        return value
    return tuple(part for part in (piece.strip() for piece in value.split(",")) if part)


def _not_a_bool(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError(f"{str(value).lower()} is not a number")  # noqa: TRY004  pydantic takes only ValueError
    return value


def _expand_path(path: Path) -> Path:
    return Path(path).expanduser().absolute()


def _check_network(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text, strict=False))
    except ValueError:
        raise ValueError(f"{text!r} is not an address range such as 10.0.0.0/8") from None


def _check_address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text.strip())) if text.strip() else ""
    except ValueError:
        raise ValueError(f"{text!r} is not an IP address") from None


def _check_host(text: str) -> str:
    if not text or any(char.isspace() or char in "/@?#" for char in text):
        raise ValueError(f"{text!r} is not a host name or address (without scheme and path)")
    return text.lower()


def _http_url(text: str) -> str:
    try:
        parts = urlsplit(text)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.query and not parts.fragment
        _ = parts.port
    except ValueError:
        is_good = False
    if not is_good:
        raise ValueError(f"{text!r} is not an address such as http://127.0.0.1:8000")
    return text.rstrip("/")


def _check_module(name: str) -> str:
    if not all(part.isidentifier() for part in name.split(".")):
        raise ValueError(f"{name!r} is not the name of a Python module")
    return name


def _check_secret(text: str) -> str:
    if text.strip() in PLACEHOLDER_KEYS:
        raise ValueError("this is the placeholder of the documentation, not a key")
    if not text.strip() or not text.isascii() or any(char.isspace() for char in text.strip()):
        raise ValueError("is not a token")
    return text.strip()


def _parse_named_values(value: object) -> object:
    """Parse JSON, `name=value` pairs with commas between them, or a list of such pairs."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        return json.loads(value)
    if isinstance(value, str):
        return _parse_pairs([piece for piece in (part.strip() for part in value.split(",")) if piece])
    return _parse_pairs(value) if isinstance(value, list) else value


def _parse_pairs(pairs: list[str]) -> dict[str, Any]:
    """Parse `name=value` pairs; a value is read as JSON where it is JSON (1, true, ["html"]), as text otherwise."""
    values: dict[str, Any] = {}
    for pair in pairs:
        name, has_value, text = pair.partition("=")
        if not has_value or not name.strip():
            raise ValueError(f"{pair!r} is not of the form name=value")
        try:
            values[name.strip()] = json.loads(text)
        except ValueError:
            values[name.strip()] = text.strip()
    return values


def _check_capabilities(value: Mapping[str, Any]) -> dict[str, Any]:
    for name, capability in value.items():
        match capability:
            case bool() | str():
                pass
            case int() | float() if 0 <= capability < math.inf:
                pass
            case list() if all(isinstance(part, str) for part in capability):
                pass
            case _:
                raise ValueError(f"{name}: a capability is a number from 0, a word, true or false, or a list of words")
    return dict(value)


def _check_amounts(value: Mapping[str, Any]) -> dict[str, float]:
    for name, amount in value.items():
        if isinstance(amount, bool) or not isinstance(amount, int | float) or not 0 <= amount < math.inf:
            raise ValueError(f"{name}: an amount is a number, 0 or more")
    return canonical_resources(value)


def _check_level(text: str) -> str:
    try:
        return parse_level(text)
    except ValueError as exc:
        raise ValueError(f"{text!r} is not {exc}") from None


def _check_log_file(path: Path) -> Path:
    path = _expand_path(path)
    if path.is_dir():
        raise ValueError(f"{path} is a folder: name a file in it")
    return path


Count = Annotated[int, BeforeValidator(_not_a_bool)]
Seconds = Annotated[float, BeforeValidator(_not_a_bool)]
Factor = Seconds
Port = Annotated[int, BeforeValidator(_not_a_bool), Field(ge=0, le=65_535)]
Priority = Annotated[int, BeforeValidator(_not_a_bool), Field(ge=limits.PRIORITY_MIN, le=limits.PRIORITY_MAX)]
Folder = Annotated[Path, AfterValidator(_expand_path)]
LogLevel = Annotated[str, AfterValidator(_check_level)]
LogFormat = Literal["auto", "console", "json"]
LogFilePath = Annotated[Path, AfterValidator(_check_log_file)]
Host = Annotated[str, AfterValidator(_check_host)]
Address = Annotated[str, AfterValidator(_check_address)]
CrawlHosts = Annotated[tuple[Annotated[str, AfterValidator(crawl_host)], ...], BeforeValidator(_split_list)]
Networks = Annotated[tuple[Annotated[str, AfterValidator(_check_network)], ...], BeforeValidator(_split_list)]
Url = Annotated[str, AfterValidator(_http_url)]
Urls = Annotated[tuple[Url, ...], BeforeValidator(_split_list)]
Modules = Annotated[tuple[Annotated[str, AfterValidator(_check_module)], ...], BeforeValidator(_split_list)]
Label = Annotated[str, Field(min_length=1, max_length=limits.LABEL_CHARS)]
Secret = Annotated[str, AfterValidator(_check_secret)]
Capabilities = Annotated[dict[str, Any], BeforeValidator(_parse_named_values), AfterValidator(_check_capabilities)]
Amounts = Annotated[dict[str, Any], BeforeValidator(_parse_named_values), AfterValidator(_check_amounts)]
