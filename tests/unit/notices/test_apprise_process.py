"""The process of apprise: its guard over names."""

from __future__ import annotations

import socket

import pytest

from crawlfleet.network.address_guard import AddressGuard, AddressRefused
from crawlfleet.notices.apprise_process import guard_names


def test_names_are_resolved_only_to_allowed_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", socket.getaddrinfo)
    guard_names(AddressGuard(["127.0.0.1"]))
    assert socket.getaddrinfo("127.0.0.1", 80, type=socket.SOCK_STREAM)[0][4] == ("127.0.0.1", 80)
    assert socket.getaddrinfo(b"127.0.0.1", 80)
    with pytest.raises(AddressRefused):
        socket.getaddrinfo("127.0.0.2", 80)
    with pytest.raises(AddressRefused):
        socket.create_connection(("::1", 80))
