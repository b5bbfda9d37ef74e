"""`python -m crawlfleet.shop --port 0 --products 200`: serves the shop and prints its address.

With --nasty: the nasty site, with 5,000 products. --table prints what it does, as Markdown.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys

import uvloop

from crawlfleet.shop.nasty.robots import VARIANTS
from crawlfleet.shop.nasty.table import as_markdown
from crawlfleet.shop.server import start_site
from crawlfleet.shop.site import SiteOptions


async def serve(host: str, port: int, options: SiteOptions, delay_s: float) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    shop = await start_site(options, host, port, delay_s=delay_s)
    try:
        sys.stdout.write(f"{shop.url}\n")
        sys.stdout.flush()
        await stop.wait()
    finally:
        await shop.close()


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m crawlfleet.shop", description="Serves the demo shop or the nasty site."
    )
    made.add_argument("--host", default="127.0.0.1")
    made.add_argument("--port", type=int, default=0, help="0 takes a free one")
    made.add_argument("--products", type=int, help="200, or 5,000 with --nasty")
    made.add_argument("--seed", type=int, default=1)
    made.add_argument("--delay", type=float, default=0.0, help="seconds that every answer takes at least")
    made.add_argument("--nasty", action="store_true", help="the nasty site: see docs/nasty-site.md")
    made.add_argument("--traps", action="store_true", help="link to the traps from the front page")
    made.add_argument("--page-bytes", type=int, default=0, help="fill product pages up to about this size")
    made.add_argument("--most-per-second", type=int, help="answer 429 above this rate")
    made.add_argument("--robots", default="shop", choices=VARIANTS, metavar="VARIANT", help="which robots.txt")
    made.add_argument("--table", action="store_true", help="print what the nasty site does, and leave")
    return made


def main() -> int:
    options = parser()
    asked = options.parse_args()
    if asked.table:
        sys.stdout.write(as_markdown())
        return 0
    products = asked.products if asked.products is not None else (5_000 if asked.nasty else 200)
    if not 0 <= products <= 1_000_000:
        options.error("--products: between 0 and 1,000,000")
    if not 0 <= asked.port <= 65_535:
        options.error("--port: between 0 and 65,535")
    if not 0 <= asked.delay <= 3_600:
        options.error("--delay: between 0 and 3,600 seconds")
    if not 0 <= asked.page_bytes <= 10_000_000:
        options.error("--page-bytes: between 0 and 10,000,000")
    if asked.most_per_second is not None and asked.most_per_second < 1:
        options.error("--most-per-second: at least 1")
    wanted = SiteOptions(
        products,
        asked.seed,
        is_plain=not asked.nasty,
        has_traps=asked.traps,
        page_bytes=asked.page_bytes,
        most_per_second=asked.most_per_second,
        robots=asked.robots,
    )
    try:
        uvloop.run(serve(asked.host, asked.port, wanted, asked.delay))
    except OSError as exc:
        sys.stderr.write(f"error: {asked.host}:{asked.port}: {exc}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
