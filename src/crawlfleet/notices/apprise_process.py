"""The process in which apprise sends one notice: JSON on standard input, JSON on standard output.

Apprise blocks, follows redirects by default, and connects to wherever a name leads. In a process of its
own it can be ended at a deadline, and names are resolved through the address guard. Nothing here logs: the words of
apprise go back to the caller, which removes secrets from them.
"""

from __future__ import annotations

import io
import json
import logging
import socket
import sys
from typing import Any

from crawlfleet.network.address_guard import AddressGuard, AddressRefused

_WORDS_CHARS = 4_000


def main() -> None:
    order = json.load(sys.stdin)
    guard_names(AddressGuard(order["allow_hosts"], hint=order["hint"]))
    json.dump(send_order(order), sys.stdout)


def send_order(order: dict[str, Any]) -> dict[str, Any]:
    """Send a notice through apprise and return whether it reports success, with the words that it logged."""
    import apprise

    words = io.StringIO()
    handler = logging.StreamHandler(words)
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger = logging.getLogger("apprise")
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(logging.WARNING)
    asset = apprise.AppriseAsset(
        http_redirects=False, secure_logging=True, storage_mode=apprise.PersistentStoreMode.MEMORY, async_mode=False
    )
    service = apprise.Apprise.instantiate(order["url"], asset=asset)
    if service is None:
        return {"is_sent": False, "is_permanent": True, "words": words.getvalue()[:_WORDS_CHARS] or "no such service"}
    service.overflow_mode = apprise.OverflowMode.TRUNCATE
    try:
        is_sent = bool(service.notify(body=order["body"], title=order["title"], notify_type=order["kind"]))
    except AddressRefused as exc:
        return {"is_sent": False, "is_permanent": True, "words": str(exc)}
    return {"is_sent": is_sent, "is_permanent": False, "words": words.getvalue()[:_WORDS_CHARS]}


def guard_names(guard: AddressGuard) -> None:
    """Let this process resolve names only to addresses that may be connected to."""
    resolve = socket.getaddrinfo

    def resolve_guarded(host: Any, port: Any, *more: Any, **options: Any) -> list[Any]:
        infos = resolve(host, port, *more, **options)
        name = host.decode() if isinstance(host, bytes) else str(host)
        for info in infos:
            guard.check_address(name, int(info[4][1]), str(info[4][0]))
        return list(infos)

    socket.getaddrinfo = resolve_guarded


if __name__ == "__main__":
    main()
