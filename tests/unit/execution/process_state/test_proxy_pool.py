"""Proxies: pools with health, real proxies on loopback, and what they may not reach."""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import msgspec
import pytest
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.bootstrap.agent_child import ChildOrder, _decode_path
from crawlfleet.bootstrap.serve import MasterProcess
from crawlfleet.bootstrap.standalone import local_agents
from crawlfleet.cli.processes.process_options import _read_pools
from crawlfleet.execution.page_failures import PageFailed
from crawlfleet.execution.process_state.proxy_pool import (
    COOL_MAX_S,
    COOL_S,
    NoProxy,
    ProxyPool,
    ProxyRotation,
    parse_pools,
    parse_proxy,
)
from crawlfleet.execution.sdk import TaskError
from crawlfleet.settings.master import MasterSettings, StandaloneSettings
from crawlfleet.settings.provenance import BadSetting
from tests.unit.execution.crawl.crawl_kit import Heard, crawl, fetcher, site
from tests.unit.execution.crawl.fetch.proxy_kit import proxy

GONE = "http://127.0.0.1:1"


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("text", "url", "user", "password"),
    [
        ("http://p.test:3128", "http://p.test:3128", None, ""),
        ("http://p.test", "http://p.test:80", None, ""),
        ("https://ann:s%40cret@p.test/", "https://p.test:443", "ann", "s@cret"),
        ("http://[2001:db8::1]:8080", "http://[2001:db8::1]:8080", None, ""),
    ],
)
def test_a_proxys_url(text: str, url: str, user: str | None, password: str) -> None:
    found = parse_proxy(text)
    assert (found.url, found.user, found.password) == (url, user, password)


@pytest.mark.parametrize(
    "text",
    ["", "p.test:80", "socks5://p.test", "http://", "http://a:secret@p.test/x", "http://p.test:99999", "http://p:0"],
)
def test_what_is_no_proxy_is_refused_without_its_password(text: str) -> None:
    with pytest.raises(ValueError, match="not a proxy") as told:
        parse_proxy(text)
    assert "secret" not in str(told.value)


def test_pools_of_a_file() -> None:
    lines = ["# ours", "", "fast http://a.test:1", "slow  http://b.test", "fast http://u:p@c.test"]
    assert parse_pools(lines) == {"fast": ["http://a.test:1", "http://u:p@c.test"], "slow": ["http://b.test"]}
    with pytest.raises(ValueError, match="line 2"):
        parse_pools(["a http://a.test", "just-a-name"])
    with pytest.raises(ValueError, match="line 1"):
        parse_pools(["a ftp://a.test"])


@given(st.integers(min_value=1, max_value=5), st.integers(min_value=1, max_value=40))
def test_requests_are_spread_evenly(proxies: int, requests: int) -> None:
    way = ProxyRotation(ProxyPool("p", [f"http://p{number}.test" for number in range(proxies)]))
    uses = Counter(way.choose_proxy("h").name for _ in range(requests))
    assert max(uses.values()) - min([*uses.values(), *[0] * (proxies - len(uses))]) <= 1


def test_what_is_kept_by_host_and_by_session() -> None:
    urls = [f"http://p{number}.test" for number in range(3)]
    by_host = ProxyRotation(ProxyPool("p", urls), "host")
    assert len({by_host.choose_proxy(host).name for host in "abc"}) == 3
    assert len({by_host.choose_proxy("a").name for _ in range(10)}) == 1
    by_session = ProxyRotation(ProxyPool("p", urls), "session")
    first = by_session.choose_proxy("a")
    assert by_session.choose_proxy("b") is first
    by_session.drop_proxy("b")
    assert by_session.choose_proxy("a") is not first


def test_a_proxy_that_fails_cools_down_for_twice_as_long_each_time() -> None:
    clock, told = Clock(), list[str]()
    pool = ProxyPool("pool fast", ["http://ann:secret@a.test", "http://b.test"], clock)
    way = ProxyRotation(pool, log=lambda message, _: told.append(message))
    first, second = way.choose_proxy("h"), way.choose_proxy("h")
    for round_ in range(8):
        way.note_failure(first, "no connection")
        way.note_failure(first, "no connection")
        assert {way.choose_proxy("h") for _ in range(5)} == {second}
        clock.now += min(COOL_S * 2**round_, COOL_MAX_S) - 1
        assert not pool.is_up(first)
        clock.now += 1
        assert pool.is_up(first)
    assert len(told) == 8, "what was under way when it failed is the same failure"
    assert told[0] == "proxy a.test:80 of pool fast is left out for 30 s: no connection"
    way.note_success(first, 0.1)
    assert pool.note_failure(first) == COOL_S
    pool.note_failure(second)
    with pytest.raises(NoProxy, match="all 2 proxies of pool fast are down"):
        way.choose_proxy("h")


def through(*urls: str, rotation: str = "request", **more: Any) -> Any:
    return fetcher(proxies=ProxyRotation(ProxyPool("pool test", urls), rotation), **more)


async def test_plain_pages_go_through_with_user_and_password() -> None:
    async with site({"/a": "<p>hi"}) as served, proxy("ann:s:cret") as running, through(running.url) as ours:
        assert (await ours.fetch(f"{served.url}/a?b")).body == b"<p>hi"
    assert running.asked == [f"GET {served.url}/a?b"]


async def test_one_that_is_down_is_left_out_and_the_page_comes_all_the_same() -> None:
    async with site({"/": "x"}) as served, proxy() as running, through(GONE, running.url) as ours:
        for _ in range(4):
            await ours.fetch(f"{served.url}/")
    assert len(running.asked) == 4


@pytest.mark.parametrize("path", ["http", "https"])
async def test_one_that_wants_another_password_is_left_out(path: str) -> None:
    async with proxy("ann:right") as running, through(running.url.replace("right", "wrong")) as ours:
        with pytest.raises(PageFailed, match="all 1 proxies of pool test are down") as told:
            await ours.fetch(f"{path}://127.0.0.1:7/")
    assert (told.value.error, told.value.kind, told.value.permanent) == ("network", "proxy", False)
    assert "wrong" not in str(told.value)


async def test_what_a_proxy_cannot_reach_is_not_its_failure() -> None:
    async with proxy(refuses=502) as running, through(running.url) as ours:
        for _ in range(2):
            with pytest.raises(PageFailed, match="could not reach it") as told:
                await ours.fetch("https://127.0.0.1:7/")
            assert (told.value.error, told.value.kind) == ("network", "proxy")
    assert len(running.asked) == 2


async def test_the_proxys_own_address_has_to_be_allowed() -> None:
    async with proxy() as running:
        for url in (running.url, running.url.replace("127.0.0.1", "localhost")):
            async with through(url, allow=frozenset({"shop.example"})) as ours:
                with pytest.raises(PageFailed, match="proxy may not be used") as told:
                    await ours.fetch("http://93.184.216.34/")
            assert (told.value.error, told.value.permanent) == ("policy", True)
    assert running.asked == []


@pytest.mark.parametrize("url", ["http://169.254.169.254/latest/", "http://10.0.0.1/", "http://localhost:7/"])
async def test_a_target_that_is_refused_is_not_asked_for_by_proxy(url: str) -> None:
    async with proxy() as running, through(running.url, allow=frozenset({f"127.0.0.1:{running.port}"})) as ours:
        with pytest.raises(PageFailed) as told:
            await ours.fetch(url)
    assert told.value.error == "policy"
    assert running.asked == []


async def test_a_name_that_only_the_proxy_knows() -> None:
    async with site({"/": "inside"}) as served, proxy() as running:
        running.tunnels_to = ("127.0.0.1", served.port)
        async with through(running.url) as ours:
            assert (await ours.fetch("http://only-there.invalid/")).body == b"inside"
    assert running.asked == ["GET http://only-there.invalid/"]


async def test_after_a_block_the_host_sees_another_address() -> None:
    async with site({"/": "fine"}) as served, proxy() as first, proxy() as second:
        first.refuses = 403
        async with through(first.url, second.url, rotation="session") as ours:
            with pytest.raises(PageFailed, match="403"):
                await ours.fetch(f"{served.url}/")
            await ours.fetch(f"{served.url}/")
    assert (len(first.asked), len(second.asked)) == (1, 1)


def own_certificate(file: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Of a server, and of a client that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    file.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(file)
    return theirs, ssl.create_default_context(cafile=str(file))


@asynccontextmanager
async def secure_site(folder: Path, body: bytes) -> AsyncIterator[tuple[int, ssl.SSLContext]]:
    theirs, trusting = own_certificate(folder / "both.pem")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
            writer.write(head % len(body) + body)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=theirs)
    try:
        yield server.sockets[0].getsockname()[1], trusting
    finally:
        server.close()


async def test_a_tunnel_to_a_secure_site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async with secure_site(tmp_path, b"<p>safe") as (port, trusting), proxy("ann:x") as running:
        monkeypatch.setattr(aiohttp.connector, "_SSL_CONTEXT_VERIFIED", trusting)
        async with through(running.url) as ours:
            assert (await ours.fetch(f"https://127.0.0.1:{port}/")).body == b"<p>safe"
    assert running.asked == [f"CONNECT 127.0.0.1:{port}"]


async def test_a_certificate_that_nobody_signed_is_a_lasting_failure(tmp_path: Path) -> None:
    async with secure_site(tmp_path, b"") as (port, _), fetcher() as ours:
        with pytest.raises(PageFailed) as told:
            await ours.fetch(f"https://127.0.0.1:{port}/")
    assert (told.value.error, told.value.kind, told.value.permanent) == ("network", "tls", True)


async def test_a_crawl_by_its_own_list_of_proxies() -> None:
    async with site({"/": '<a href="/b">b</a>', "/b": "x"}) as served, proxy() as running:
        heard = Heard()
        parameters = {"url": f"{served.url}/", "depth": 1, "proxies": {"urls": [GONE, running.url], "rotation": "host"}}
        result = await crawl(parameters, heard)
        assert result["metrics"]["pages_crawled"] == 2
        assert len(running.asked) == 3, "the robots.txt too"
    assert any("is left out" in line for _, line in heard.lines)
    with pytest.raises(TaskError, match="all 1 proxies of the task's proxies are down") as told:
        await crawl({"url": "http://127.0.0.1:7/", "proxies": [GONE]})
    assert (told.value.error, told.value.permanent) == ("network", False)
    with pytest.raises(TaskError, match=r"its proxy may not be used: 10\.9\.9\.9 is private.*--allow-host") as told:
        await crawl({"url": "http://127.0.0.1:7/", "proxies": ["http://10.9.9.9:1"]})
    assert (told.value.error, told.value.permanent) == ("policy", True)
    with pytest.raises(TaskError, match="this node has no pool 'fast'"):
        await crawl({"url": "http://127.0.0.1:7/", "proxies": {"pool": "fast"}})


def test_a_file_of_pools_that_is_none_is_told_by_its_line(tmp_path: Path) -> None:
    file = tmp_path / "proxies"
    file.write_text("fast http://a.test:1\nslow http://u:secret@b.test/x\n")
    with pytest.raises(BadSetting, match=r"proxies_file.*line 2") as told:
        _read_pools(file)
    assert "secret" not in str(told.value)
    file.write_text("fast http://a.test:1\n")
    assert _read_pools(file) == {"fast": ["http://a.test:1"]}
    assert _read_pools(None) == {}


def test_a_standalone_installation_gives_its_pools_to_its_agents(tmp_path: Path) -> None:
    pools = {"fast": ["http://a.test:1"]}
    settings = MasterSettings(data_dir=tmp_path)
    process = cast("MasterProcess", SimpleNamespace(url="http://127.0.0.1:8000"))
    agents = local_agents(process, settings, 2, 1, proxy_pools=pools)
    assert [order.options.proxy_pools for order in agents._orders] == [pools, pools]
    # On its way through standard input to the agent's process.
    order = msgspec.json.decode(
        msgspec.json.encode(agents._orders[0], enc_hook=str), type=ChildOrder, dec_hook=_decode_path
    )
    assert order.options.proxy_pools == pools


def test_a_standalone_installation_is_told_of_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="proxies_file: there is no file"):
        StandaloneSettings(data_dir=tmp_path, proxies_file=tmp_path / "none")


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_large_pages_of_a_secure_site_over_one_connection(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    theirs, trusting = own_certificate(tmp_path / "both.pem")
    monkeypatch.setattr(aiohttp.connector, "_SSL_CONTEXT_VERIFIED", trusting)
    body = b"<p>safe" * 400_000
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = b"" if b"/open" in head else b"Content-Length: %d\r\n" % len(body)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" + length + b"\r\n" + body)
                await writer.drain()
                if not length:
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def met() -> list[bytes]:
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=theirs)
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with fetcher() as ours:
            found = [(await ours.fetch(f"{url}/{path}")).body for path in ("1", "2", "open")]
        server.close()
        return found

    with asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(met()) == [body] * 3
    assert connections == 1
