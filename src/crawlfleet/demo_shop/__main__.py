"""`python -m crawlfleet.demo_shop --port 0 --products 200`: serves the demo shop and prints its address."""

from __future__ import annotations

import argparse
import sys

import uvloop

from crawlfleet.demo_shop.server import run_server, start_shop


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m crawlfleet.demo_shop", description="Serves the demo shop.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--products", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--delay", type=float, default=0.0, help="seconds that every answer takes at least")
    return parser


def main() -> int:
    parser = build_parser()
    options = parser.parse_args()
    if not 0 <= options.products <= 1_000_000:
        parser.error("--products: between 0 and 1,000,000")
    if not 0 <= options.port <= 65_535:
        parser.error("--port: between 0 and 65,535")
    if not 0 <= options.delay <= 3_600:
        parser.error("--delay: between 0 and 3,600 seconds")
    shop = start_shop(options.host, options.port, options.products, seed=options.seed, delay_s=options.delay)
    try:
        uvloop.run(run_server(shop))
    except OSError as exc:
        sys.stderr.write(f"error: {options.host}:{options.port}: {exc}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
