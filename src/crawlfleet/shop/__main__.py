"""`python -m crawlfleet.shop --port 0 --products 200`: serves the shop and prints its address."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys

from crawlfleet.shop.server import start_shop


async def serve(host: str, port: int, products: int, seed: int, delay_s: float) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    shop = await start_shop(host, port, products, seed=seed, delay_s=delay_s)
    try:
        sys.stdout.write(f"{shop.url}\n")
        sys.stdout.flush()
        await stop.wait()
    finally:
        await shop.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m crawlfleet.shop", description="Serves the demo shop.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--products", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--delay", type=float, default=0.0, help="seconds that every answer takes at least")
    asked = parser.parse_args()
    if not 0 <= asked.products <= 1_000_000:
        parser.error("--products: between 0 and 1,000,000")
    try:
        asyncio.run(serve(asked.host, asked.port, asked.products, asked.seed, asked.delay))
    except OSError as exc:
        sys.stderr.write(f"error: {asked.host}:{asked.port}: {exc}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
