"""Crawls the demo shop and prints its products, one JSON object a line.

python -m crawlfleet.demo_shop --port 8001 --products 60
crawlfleet standalone --data-dir ./fleet --allow-host 127.0.0.1
CRAWLFLEET_DATA_DIR=./fleet python crawl_shop.py http://127.0.0.1:8001
"""

from __future__ import annotations

import json
import sys

from crawlfleet.client import Client


def main(shop: str) -> int:
    with Client() as client:
        task = client.submit(
            "web_crawl",
            {
                "url": f"{shop}/products",
                "depth": 10,
                "max_pages": 200,
                # The selector whose matches contain the others is the record; the others are its fields.
                "selectors": {"product": "div.product", "title": "h2.title", "price": "span.price"},
            },
            project_id="shop",
            timeout_s=300,
        )
        (done,) = client.wait([task.id], timeout=300)
        if done.status != "completed":
            print(client.why(task.id).sentence, file=sys.stderr)
            return 1
        # Lists and category pages show a product more than once.
        products = {item["url"]: item for item in client.results(task.id)}
        for product in products.values():
            print(json.dumps(product, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
