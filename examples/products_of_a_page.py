"""The task of the API's specification: products with title and price, and the result as it is documented.

python -m crawlfleet.demo_shop --port 8001 --products 60
crawlfleet standalone --data-dir ./fleet --allow-host 127.0.0.1
CRAWLFLEET_DATA_DIR=./fleet python products_of_a_page.py http://127.0.0.1:8001/products
"""

from __future__ import annotations

import sys

import msgspec

from crawlfleet.client import Client


def main(page: str) -> int:
    with Client() as client:
        task = client.submit(
            "web_crawl",
            {
                "url": page,
                "depth": 2,
                "max_pages": 15,
                # The selector whose matches contain the others is the record; the others are its fields.
                "selectors": {"product": "div.product", "title": "h2.title", "price": "span.price"},
            },
            project_id="proj-123",
            priority=7,
        )
        (done,) = client.wait([task.id], timeout=300)
        if done.result is None:
            print(client.why(task.id).sentence, file=sys.stderr)
            return 1
        # success, data {"products": [{"title", "price", "url"}]}, metrics {"pages_crawled", ...}, timestamp
        print(msgspec.json.encode(done.result).decode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
