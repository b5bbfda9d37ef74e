"""Splits a list of URLs of the demo shop over the nodes, and prints what all of them found as one list.

python -m crawlfleet.demo_shop --port 8001 --products 60
crawlfleet standalone --data-dir ./fleet --nodes 2 --allow-host 127.0.0.1
CRAWLFLEET_DATA_DIR=./fleet python shard_urls.py http://127.0.0.1:8001
"""

from __future__ import annotations

import json
import sys

from crawlfleet.client import Client


def main(shop: str) -> int:
    urls = [f"{shop}/products/{number}" for number in range(1, 41)]
    with Client() as client:
        group = client.shard(
            "web_crawl",
            # One page at a time, so that the items of a shard are in the order of its URLs.
            {
                "urls": urls,
                "depth": 0,
                "concurrency": 1,
                "selectors": {"product": "div.product", "title": "h2.title", "price": "span.price"},
            },
            over="urls",
            size=10,
            name="product pages",
            project_id="shop",
            timeout_s=300,
        )
        group = client.wait_group(group.id, timeout=300)
        print(f"{group.progress.completed} of {group.progress.total} shards", file=sys.stderr)
        if not group.is_complete:
            # Only what failed is tried again.
            client.retry_group(group.id)
            group = client.wait_group(group.id, timeout=300)
        for item in client.group_items(group.id):
            print(json.dumps(item, ensure_ascii=False))
    return 0 if group.is_complete else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
