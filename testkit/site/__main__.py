"""`python -m testkit.site --port 0 --products 500` serves the nasty site and prints its address.

`--table` prints the table of its behaviours, as Markdown.
"""

from __future__ import annotations

import argparse
import sys

import uvloop

from crawlfleet.demo_shop.server import run_server
from testkit.site.nasty.behaviour_table import as_markdown
from testkit.site.nasty.robots import VARIANTS
from testkit.site.server import start_site
from testkit.site.site import SiteOptions


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m testkit.site", description="Serves the nasty site: see docs/nasty-site.md."
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--products", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--delay", type=float, default=0.0, help="seconds that every answer takes at least")
    parser.add_argument("--traps", action="store_true", help="link to the traps from the front page")
    parser.add_argument("--page-bytes", type=int, default=0, help="fill product pages up to about this size")
    parser.add_argument("--most-per-second", type=int, help="answer 429 above this rate")
    parser.add_argument("--robots", default="shop", choices=VARIANTS, metavar="VARIANT", help="which robots.txt")
    parser.add_argument("--table", action="store_true", help="print what the nasty site does, and leave")
    return parser


def main() -> int:
    parser = build_parser()
    options = parser.parse_args()
    if options.table:
        sys.stdout.write(as_markdown())
        return 0
    if not 0 <= options.products <= 1_000_000:
        parser.error("--products: between 0 and 1,000,000")
    if not 0 <= options.port <= 65_535:
        parser.error("--port: between 0 and 65,535")
    if not 0 <= options.delay <= 3_600:
        parser.error("--delay: between 0 and 3,600 seconds")
    if not 0 <= options.page_bytes <= 10_000_000:
        parser.error("--page-bytes: between 0 and 10,000,000")
    if options.most_per_second is not None and options.most_per_second < 1:
        parser.error("--most-per-second: at least 1")
    site_options = SiteOptions(
        options.products,
        options.seed,
        has_traps=options.traps,
        page_bytes=options.page_bytes,
        most_per_second=options.most_per_second,
        robots=options.robots,
    )
    try:
        uvloop.run(run_server(start_site(site_options, options.host, options.port, delay_s=options.delay)))
    except OSError as exc:
        sys.stderr.write(f"error: {options.host}:{options.port}: {exc}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
