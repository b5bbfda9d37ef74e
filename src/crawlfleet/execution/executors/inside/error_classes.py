"""What an exception out of an executor means: its class, and a short message."""

from __future__ import annotations

import errno
import socket
from typing import NamedTuple

from crawlfleet.execution.budget.quota_meter import OverQuota
from crawlfleet.execution.sdk import TaskError, TryLater
from crawlfleet.model.status import ErrorClass

_NETWORK_ERRNOS = frozenset(
    {
        errno.ECONNREFUSED,
        errno.ECONNRESET,
        errno.ECONNABORTED,
        errno.EPIPE,
        errno.EHOSTUNREACH,
        errno.ENETUNREACH,
        errno.ENETDOWN,
        errno.EHOSTDOWN,
        errno.EADDRNOTAVAIL,
        errno.ENETRESET,
        errno.ENOTCONN,
    }
)
# By name: the libraries need not be loaded, or even installed, to know their errors.
_BY_NAME = {
    "aiohttp.client_exceptions.ClientResponseError": ErrorClass.HTTP,
    "aiohttp.client_exceptions.ClientError": ErrorClass.NETWORK,
    "httpx.HTTPStatusError": ErrorClass.HTTP,
    "httpx.HTTPError": ErrorClass.NETWORK,
    "requests.exceptions.HTTPError": ErrorClass.HTTP,
    "requests.exceptions.RequestException": ErrorClass.NETWORK,
    "urllib3.exceptions.HTTPError": ErrorClass.NETWORK,
    "urllib.error.HTTPError": ErrorClass.HTTP,
    "urllib.error.URLError": ErrorClass.NETWORK,
}


class Classified(NamedTuple):
    error: ErrorClass
    message: str
    is_permanent: bool = False
    is_expected: bool = False
    """Said by the executor itself: no traceback is needed to understand it."""


def classified(exc: BaseException) -> Classified:
    match exc:
        case TaskError():
            return Classified(ErrorClass.of_word(exc.error), str(exc), exc.permanent, is_expected=True)
        case TryLater():
            return Classified(ErrorClass.BLOCKED, str(exc), is_expected=True)
        case OverQuota():
            return Classified(ErrorClass.POLICY, str(exc), is_permanent=True, is_expected=True)
        case MemoryError():
            return Classified(ErrorClass.CRASH, "ran out of memory")
        case SystemExit():
            return Classified(ErrorClass.CRASH, f"called exit({exc.code!r})")
        case TimeoutError():
            return Classified(ErrorClass.TIMEOUT, _text(exc))
    for base in type(exc).__mro__:
        error = _BY_NAME.get(f"{base.__module__}.{base.__qualname__}")
        if error is not None:
            return Classified(error, _text(exc))
    return Classified(ErrorClass.NETWORK if _is_network(exc) else ErrorClass.INTERNAL, _text(exc))


def _is_network(exc: BaseException) -> bool:
    if isinstance(exc, ConnectionError | socket.gaierror | socket.herror):
        return True
    return isinstance(exc, OSError) and exc.errno in _NETWORK_ERRNOS


def _text(exc: BaseException) -> str:
    try:
        said = str(exc)
    except Exception:  # a stranger's __str__
        said = ""
    return f"{type(exc).__name__}: {said}" if said else type(exc).__name__
