"""The demo shop as a server: as a part of a program, and as a process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

import aiohttp
import pytest

from crawlfleet.demo_shop import start_shop
from crawlfleet.demo_shop.catalogue import make_catalogue
from testkit.patience import PATIENCE_S

pytestmark = pytest.mark.integration


async def test_the_shop_as_a_program() -> None:
    command = (sys.executable, "-m", "crawlfleet.demo_shop", "--port", "0", "--products", "30")
    child = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert child.stdout is not None
    url = (await asyncio.wait_for(child.stdout.readline(), PATIENCE_S)).decode().strip()
    async with aiohttp.ClientSession() as session:
        robots = await (await session.get(f"{url}/robots.txt")).text()
        sitemap = await (await session.get(f"{url}/sitemap.xml")).text()
        assert (await session.get(f"{url}/products/31")).status == 404
    child.terminate()
    assert await asyncio.wait_for(child.wait(), PATIENCE_S) == 0
    assert f"Sitemap: {url}/sitemap.xml" in robots
    assert sitemap.count("<loc>") == len(make_catalogue(30).page_paths())


@pytest.mark.parametrize("arguments", [("--products", "-1"), ("--port", "99999999"), ("--delay", "-1")])
def test_bad_options_are_refused_by_name(arguments: tuple[str, str]) -> None:
    command = [sys.executable, "-m", "crawlfleet.demo_shop", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 2
    assert arguments[0] in done.stderr
    assert "Traceback" not in done.stderr


async def test_a_connection_is_used_again_and_requests_are_answered_in_their_order() -> None:
    shop = await start_shop(products=20)
    reader, writer = await asyncio.open_connection(*shop.host.split(":"))
    asked = [f"{method} /products/{number} HTTP/1.1" for method, number in (("HEAD", 1), ("GET", 2), ("GET", 3))]
    writer.write("".join(f"{line}\r\nHost: a\r\n\r\n" for line in asked).encode())
    writer.write(b"GET /about HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    text = (await asyncio.wait_for(reader.read(), PATIENCE_S)).decode()
    writer.close()
    await shop.close()
    titles = [f"<title>{shop.catalogue.products[number - 1].title}" for number in (2, 3)]
    assert text.count("HTTP/1.1 200 OK") == 4
    assert [text.count(title) for title in (*titles, "<title>About us")] == [1, 1, 1]
    assert text.index(titles[0]) < text.index(titles[1]) < text.index("<title>About us")
    assert f"<title>{shop.catalogue.products[0].title}" not in text.partition(titles[0])[0]


async def test_what_is_not_http_is_refused_and_the_connection_closed() -> None:
    shop = await start_shop(products=20)
    reader, writer = await asyncio.open_connection(*shop.host.split(":"))
    writer.write(b"hello\r\n\r\n")
    assert (await asyncio.wait_for(reader.read(), PATIENCE_S)).startswith(b"HTTP/1.1 400 ")
    writer.close()
    await shop.close()


async def test_every_answer_takes_the_delay_and_closing_waits_for_none() -> None:
    shop = await start_shop(products=20, delay_s=0.3)
    async with aiohttp.ClientSession() as session:
        began = time.monotonic()
        assert (await session.get(f"{shop.url}/about")).status == 200
        assert time.monotonic() - began >= 0.29
    await shop.close()
    slow = await start_shop(products=20, delay_s=3_600)
    reader, writer = await asyncio.open_connection(*slow.host.split(":"))
    writer.write(b"GET /about HTTP/1.1\r\nHost: a\r\n\r\n")
    await asyncio.sleep(0)
    await asyncio.wait_for(slow.close(), PATIENCE_S)
    with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
        await reader.readexactly(1)
    writer.close()
