"""The address of a PostgreSQL database, as managed services print it, converted to the form that asyncpg takes."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import asyncpg
import structlog

from crawlfleet.errors import ConfigError

log = structlog.get_logger()

POSTGRES_SCHEMES = ("postgresql://", "postgres://")

_LIBPQ_ONLY = frozenset(
    {
        "channel_binding",
        "connect_timeout",
        "gssdelegation",
        "gssencmode",
        "hostaddr",
        "keepalives",
        "keepalives_count",
        "keepalives_idle",
        "keepalives_interval",
        "load_balance_hosts",
        "max_protocol_version",
        "min_protocol_version",
        "pgbouncer",
        "pool_timeout",
        "require_auth",
        "requirepeer",
        "sslcertmode",
        "sslcompression",
        "sslcrldir",
        "sslsni",
        "tcp_user_timeout",
        "connection_limit",
        "fallback_application_name",
    }
)
"""Parameters of libpq and of other clients. asyncpg does not know them and would send them to the server as settings,
which refuses the connection."""
_WEAKENS = frozenset({"channel_binding", "require_auth"})
"""Parameters among those whose absence makes the connection less safe than the address asks for."""
_TLS_REFUSED = "rejected SSL upgrade"
_FILE_READERS = ("X509", "PEM")
"""Parts of OpenSSL that read files of certificates and keys."""
_MISTAKES = (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError, ValueError)
"""Errors of a wrong address: an unknown user, an unknown database, and what asyncpg cannot parse."""


_TARGET = "target_session_attrs"
_UNKNOWN_PARAMETER = "unsupported startup parameter"
"""Part of the error message with which a pooler refuses settings of connections."""
_FILES = ("sslrootcert", "sslcert", "sslkey", "sslcrl")


def normalise_address(address: str) -> str:
    """Remove the parameters that only other clients understand, and ask for the host that takes writes where there are
    several. Raises ConfigError when the query of the address is wrong."""
    parts = urlsplit(address)
    try:
        parameters = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError as exc:
        raise ConfigError(f"store: what follows the ? of the address is not NAME=VALUE&...: {parts.query!r}") from exc
    ignored = sorted({name for name, _ in parameters if name in _LIBPQ_ONLY})
    if ignored:
        write_log = log.warning if _WEAKENS.intersection(ignored) else log.info
        write_log("store_parameters_ignored", parameters=ignored)
    if _has_many_hosts(parts.netloc, parameters) and not any(name == _TARGET for name, _ in parameters):
        # The default of the driver is the first host that answers, which may be a standby.
        parameters.append((_TARGET, "read-write"))
    kept = [(name, _find_file(name, value)) for name, value in parameters if name not in _LIBPQ_ONLY]
    normalised = urlunsplit(parts._replace(query=urlencode(kept)))
    # An address without a host, whose host is a parameter, loses its slashes.
    return normalised if parts.netloc else normalised.replace(":/", ":///", 1)


def _has_many_hosts(netloc: str, parameters: Sequence[tuple[str, str]]) -> bool:
    return "," in netloc.rpartition("@")[2] or any(name == "host" and "," in value for name, value in parameters)


def _find_file(name: str, value: str) -> str:
    """Return the value of a parameter; if it names a file, the path of a file that exists."""
    if name not in _FILES:
        return value
    if (name, value) == ("sslrootcert", "system"):
        value = ssl.get_default_verify_paths().cafile or value
    if not Path(value).is_file():
        raise ConfigError(f"store: {name} of the address: there is no file {value}")
    return value


def find_mistake(exc: BaseException) -> str | None:
    """Return the mistake in the address that this failure to connect shows, which waiting for the server does not
    mend; None if it shows none."""
    if isinstance(exc, ssl.SSLCertVerificationError):
        return (
            f"the server's certificate is not accepted ({exc.verify_message}): name its authority in the address, "
            "?sslmode=verify-full&sslrootcert=FILE"
        )
    if isinstance(exc, asyncpg.ProtocolViolationError) and _UNKNOWN_PARAMETER in str(exc):
        return (
            f"a pooler between the masters and the server refuses the settings of connections ({exc}): give the "
            "address of PostgreSQL itself"
        )
    if isinstance(exc, ConnectionError) and _TLS_REFUSED in str(exc):
        return "the server speaks no TLS, and the address asks for it (sslmode)"
    if isinstance(exc, _MISTAKES) or (isinstance(exc, ssl.SSLError) and exc.library in _FILE_READERS):
        return str(exc)
    return None
