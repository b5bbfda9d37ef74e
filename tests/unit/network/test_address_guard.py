"""Which addresses may be connected to, and that no way around the answer exists."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Sequence

import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.execution.crawl.frontier.urls import canonical_url
from crawlfleet.execution.page_failures import PageFailed
from crawlfleet.network.address_guard import (
    REFUSED,
    AddressGuard,
    AddressRefused,
    parse_allowed_entry,
    refusal_reason,
)
from tests.unit.execution.crawl.crawl_kit import fetcher, site

INSIDE = [
    "0.0.0.0",
    "0.1.2.3",
    "10.1.2.3",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.8.8.8",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.192",
    "192.168.1.1",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fec0::1",
    "ff02::1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::1",
    "2002:7f00:1::",
    "2002:c0a8:101::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:db8::1",
]
OUTSIDE = ["1.1.1.1", "8.8.8.8", "100.63.255.255", "172.32.0.1", "93.184.216.34", "2606:4700::1111", "::ffff:8.8.8.8"]


@pytest.mark.parametrize("address", INSIDE)
def test_an_inner_address_is_refused(address: str) -> None:
    assert refusal_reason(ipaddress.ip_address(address)) is not None
    with pytest.raises(AddressRefused):
        AddressGuard().check_address("some.name", 80, address)


@pytest.mark.parametrize("address", OUTSIDE)
def test_an_address_of_the_open_internet_is_not(address: str) -> None:
    assert refusal_reason(ipaddress.ip_address(address)) is None
    AddressGuard().check_address("some.name", 80, address)


@given(st.sampled_from([net for net, _ in REFUSED if net.version == 4]), st.integers(min_value=0))
def test_every_spelling_of_a_refused_v4_address_is_refused(network: ipaddress.IPv4Network, offset: int) -> None:
    inner = ipaddress.IPv4Address(int(network.network_address) + offset % network.num_addresses)
    for text in (f"::ffff:{inner}", f"64:ff9b::{inner}", f"2002:{int(inner) >> 16:x}:{int(inner) & 0xFFFF:x}::1"):
        assert refusal_reason(ipaddress.ip_address(text)) is not None, text


@pytest.mark.parametrize(
    ("entry", "host", "port", "address", "is_allowed"),
    [
        ("shop.test", "shop.test", 80, "10.0.0.1", True),
        ("SHOP.test.", "shop.test", 80, "10.0.0.1", True),
        ("shop.test", "other.test", 80, "10.0.0.1", False),
        ("shop.test", "a.shop.test", 80, "10.0.0.1", False),
        ("shop.test:8080", "shop.test", 8080, "10.0.0.1", True),
        ("shop.test:8080", "shop.test", 80, "10.0.0.1", False),
        ("127.0.0.1", "localhost", 80, "127.0.0.1", True),
        ("127.0.0.1", "x", 80, "::ffff:127.0.0.1", True),
        ("127.0.0.1:81", "127.0.0.1", 81, "127.0.0.1", True),
        ("127.0.0.1:81", "127.0.0.1", 80, "127.0.0.1", False),
        ("127.0.0.1", "x", 80, "127.0.0.2", False),
        ("10.0.0.0/8", "x", 80, "10.200.0.1", True),
        ("10.0.0.0/8", "x", 80, "192.168.0.1", False),
        ("::1", "localhost", 80, "::1", True),
        ("[::1]:8000", "localhost", 8000, "::1", True),
        ("fc00::/7", "x", 80, "fd00::1", True),
    ],
)
def test_what_an_entry_allows(entry: str, host: str, port: int, address: str, is_allowed: bool) -> None:
    guard = AddressGuard([entry])
    if is_allowed:
        guard.check_address(host, port, address)
    else:
        with pytest.raises(AddressRefused):
            guard.check_address(host, port, address)


@pytest.mark.parametrize("entry", ["", "a b", "10.0.0.0/99", "shop.test:x", "shop.test:99999", "http://x/"])
def test_an_entry_that_is_none_is_named(entry: str) -> None:
    with pytest.raises(ValueError, match="is no host") as told:
        parse_allowed_entry(entry)
    assert repr(entry) in str(told.value)


@pytest.mark.parametrize(
    ("entry", "host", "port", "is_listed"),
    [
        ("shop.test", "Shop.Test.", 80, True),
        ("shop.test:81", "shop.test", 80, False),
        ("10.0.0.0/8", "10.1.2.3", 80, True),
        ("10.0.0.0/8", "shop.test", 80, False),
        ("203.0.113.7", "203.0.113.7", 80, True),
        ("[::1]:8000", "[::1]", 8000, True),
    ],
)
def test_a_host_is_listed_by_its_name_or_its_address(entry: str, host: str, port: int, is_listed: bool) -> None:
    assert AddressGuard([entry]).is_listed(host, port) is is_listed


def test_a_refusal_says_how_to_allow_the_address() -> None:
    with pytest.raises(AddressRefused, match=r"^10\.0\.0\.1 is private: name it in the list$"):
        AddressGuard(hint="name it in the list").check_literal("10.0.0.1", 80)


def test_a_socket_is_made_only_to_what_was_checked() -> None:
    guard = AddressGuard(["shop.test"])
    info = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.1", 80))
    with pytest.raises(AddressRefused):
        guard.open_socket(info)
    guard.check_address("shop.test", 80, "10.0.0.1")
    guard.open_socket(info).close()
    with pytest.raises(AddressRefused):
        guard.open_socket((*info[:4], ("10.0.0.1", 81)))


# With real listeners, which must not hear a thing.

SPELLINGS = [
    "127.0.0.1",
    "127.1",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "017700000001",
    "0177.0.0.1",
    "127.0.0.1.",
    "0.0.0.0",
    "0",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::]",
    "localhost",
    "LOCALHOST",
    "１２７.0.0.1",
    "127%2e0.0.1",
    "user:secret@127.0.0.1",
    "127。0。0。1",
]


@pytest.mark.parametrize("host", SPELLINGS)
async def test_no_spelling_of_loopback_gets_through(host: str) -> None:
    async with site({"/": "secret"}) as inner, fetcher(allow=frozenset()) as ours:
        url = canonical_url(f"http://{host}:{inner.port}/")
        assert url is not None
        with pytest.raises(PageFailed) as told:
            await ours.fetch(url)
        assert (told.value.error, told.value.permanent) == ("policy", True)
        assert inner.hits == []


async def test_a_redirect_to_an_inner_address_is_refused() -> None:
    async with site({"/": "secret"}, host="127.0.0.2") as inner:

        async def away(request: web.Request) -> web.Response:
            raise web.HTTPFound(f"{inner.url}/")

        async with site({"/away": away}) as outer, fetcher() as ours:
            with pytest.raises(PageFailed) as told:
                await ours.fetch(f"{outer.url}/away")
            assert told.value.error == "policy"
            assert "127.0.0.2" in str(told.value)
            assert outer.hits == ["/away"]
            assert inner.hits == []


class Names(AbstractResolver):
    """Answers each question about any name with the next of its answers."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers = list(answers)
        self.asked = 0

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        answer = self._answers[min(self.asked, len(self._answers) - 1)]
        self.asked += 1
        return [
            {"hostname": host, "host": address, "port": port, "family": socket.AF_INET, "proto": 0, "flags": 0}
            for address in answer
        ]

    async def close(self) -> None:
        pass


async def test_a_name_that_changes_its_answer_gains_nothing() -> None:
    """The address that was checked is the one connected to: one question per connection, no second look."""
    async with site({"/": "secret"}) as inner, site({"/": "public"}, host="127.0.0.2") as outer:
        names = Names(["127.0.0.2"], ["127.0.0.1"])
        # The listener on 127.0.0.2 stands for the open internet.
        allow = frozenset({"127.0.0.2"})
        async with fetcher(allow=allow, resolver=names) as ours:
            page = await ours.fetch(f"http://rebind.test:{outer.port}/")
            assert page.body == b"public"
            assert names.asked == 1
            with pytest.raises(PageFailed) as told:
                await ours.fetch(f"http://rebind.test:{inner.port}/")
            assert told.value.error == "policy"
        assert inner.hits == []


async def test_only_the_good_addresses_of_a_name_are_tried() -> None:
    async with site({"/": "public"}, host="127.0.0.2") as outer:
        names = Names(["127.0.0.1", "169.254.169.254", "127.0.0.2"])
        async with fetcher(allow=frozenset({"127.0.0.2"}), resolver=names) as ours:
            assert (await ours.fetch(f"http://mixed.test:{outer.port}/")).body == b"public"


async def test_an_allowed_name_does_not_open_its_address_to_other_names() -> None:
    async with site({"/": "inner"}) as inner:
        names = Names(["127.0.0.1"])
        async with fetcher(allow=frozenset({"shop.test"}), resolver=names) as ours:
            assert (await ours.fetch(f"http://shop.test:{inner.port}/")).body == b"inner"
            for host in ("evil.test", "127.0.0.1"):
                with pytest.raises(PageFailed):
                    await ours.fetch(f"http://{host}:{inner.port}/")
        assert inner.hits == ["/"]


async def test_refusals_of_many_at_once_are_all_told() -> None:
    async with site({"/": "secret"}) as inner, fetcher(allow=frozenset(), resolver=Names(["127.0.0.1"])) as ours:
        urls = [f"http://rebind.test:{inner.port}/{n}" for n in range(20)]
        told = await asyncio.gather(*(ours.fetch(url) for url in urls), return_exceptions=True)
        assert {getattr(one, "error", None) for one in told} == {"policy"}
        assert inner.hits == []
