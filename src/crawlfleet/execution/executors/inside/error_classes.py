"""Classification of exceptions raised by executors: the error class, and a short message."""

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


class ClassifiedError(NamedTuple):
    """The error class and message of an exception."""

    error: ErrorClass
    message: str
    is_permanent: bool = False
    is_expected: bool = False
    """Raised by the executor on purpose: no traceback is needed to understand it."""


def classify_error(exc: BaseException) -> ClassifiedError:
    match exc:
        case TaskError():
            return ClassifiedError(ErrorClass.of_word(exc.error), str(exc), exc.permanent, is_expected=True)
        case TryLater():
            return ClassifiedError(ErrorClass.BLOCKED, str(exc), is_expected=True)
        case OverQuota():
            return ClassifiedError(ErrorClass.POLICY, str(exc), is_permanent=True, is_expected=True)
        case MemoryError():
            return ClassifiedError(ErrorClass.CRASH, "ran out of memory")
        case SystemExit():
            return ClassifiedError(ErrorClass.CRASH, f"called exit({exc.code!r})")
        case TimeoutError():
            return ClassifiedError(ErrorClass.TIMEOUT, _error_text(exc))
    for base in type(exc).__mro__:
        error = _BY_NAME.get(f"{base.__module__}.{base.__qualname__}")
        if error is not None:
            return ClassifiedError(error, _error_text(exc))
    return ClassifiedError(ErrorClass.NETWORK if _is_network(exc) else ErrorClass.INTERNAL, _error_text(exc))


def _is_network(exc: BaseException) -> bool:
    if isinstance(exc, ConnectionError | socket.gaierror | socket.herror):
        return True
    return isinstance(exc, OSError) and exc.errno in _NETWORK_ERRNOS


def _error_text(exc: BaseException) -> str:
    try:
        text = str(exc)
    except Exception:  # __str__ of user code
        text = ""
    return f"{type(exc).__name__}: {text}" if text else type(exc).__name__
