"""What a plan costs on a page of 30 KB with 66 links, beside the bare calls of the parser that find the same.

python -m bench.extraction
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from selectolax.lexbor import LexborHTMLParser

from crawlfleet.execution.crawl.parse.extract.dom import LexborDom
from crawlfleet.execution.crawl.parse.extract.extraction_plan import compile_plan
from crawlfleet.execution.crawl.parse.extract.page_links import extract_page_links
from crawlfleet.execution.crawl.parse.page_parser import ParseRequest, parse_page

URL = "http://shop.test/products"
FIELDS = {"title": "h2.title", "price": "span.price"}
PLANS: dict[str, dict[str, Any]] = {
    "prices alone": {"selectors": {"price": "span.price"}},
    "flat form": {"selectors": {"product": "div.product", **FIELDS}},
    "containers": {"extract": {"products": {"container": "div.product", "fields": FIELDS}}},
    "with types": {
        "extract": {
            "products": {
                "container": "div.product",
                "fields": FIELDS | {"price": {"selector": "span.price", "type": "price"}},
            }
        }
    },
    "xpath": {"extract": {"products": {"container": "//div[@class='product']", "fields": {"title": ".//h2"}}}},
    "structured": {"page": ["structured", "metadata"]},
    "markdown": {"page": ["markdown"]},
}


def shop_page(products: int = 20, links: int = 66) -> str:
    words = "A thing of use and beauty, made by hand and sent by post. " * 4
    facts = "".join(
        f'<li class="fact"><span class="name">Fact {n}</span><span class="value">{n} cm</span></li>' for n in range(8)
    )
    cards = "".join(
        f'<div class="product"><a href="/products/{n}"><img src="/images/{n}.jpg" alt=""></a>'
        f'<h2 class="title">Thing {n}</h2><p class="about">{words}</p><ul class="facts">{facts}</ul>'
        f'<p><span class="price">${n}.99</span></p></div>'
        for n in range(products)
    )
    around = "".join(f'<li><a href="/category/{n}?page={n}">Category {n}</a></li>' for n in range(links - products))
    return f"<!doctype html><title>The shop</title><nav><ul>{around}</ul></nav><main>{cards}</main>"


def bare_list(html: str) -> None:
    """Title, prices, links."""
    tree = LexborHTMLParser(html)
    tree.css_first("title").text()  # type: ignore[union-attr]
    _ = [node.text() for node in tree.css("span.price")]
    _ = [node.attributes.get("href") for node in tree.css("a[href]")]


def bare_records(html: str) -> None:
    """Title, links, and title, price and first link of every product."""
    tree = LexborHTMLParser(html)
    tree.css_first("title").text()  # type: ignore[union-attr]
    for node in tree.css("div.product"):
        for selector in ("h2.title", "span.price"):
            node.css_first(selector).text()  # type: ignore[union-attr]
        node.css_first("a[href]").attributes.get("href")  # type: ignore[union-attr]
    _ = [node.attributes.get("href") for node in tree.css("a[href]")]


def by_plan(parameters: dict[str, Any]) -> Callable[[str], None]:
    """As a crawl does it; raw links, as what is made of them is not measured here."""
    source = compile_plan(parameters).source
    # After the first page that shows it, the container of the flat form is known.
    known = "product" if "product" in parameters.get("selectors", {}) else None

    def run(html: str) -> None:
        parse_page(ParseRequest(html, URL, source, known, False))

    return run


def links_alone(html: str) -> None:
    extract_page_links(LexborDom(html))


def cpu_ms(works: dict[str, Callable[[str], None]], html: str, turns: int = 40, pages: int = 40) -> dict[str, float]:
    """Of one page, the least of many turns, which all take in turn: what else the machine does meets all of them."""
    best = dict.fromkeys(works, float("inf"))
    for _ in range(turns):
        for name, work in works.items():
            began = time.process_time()
            for _ in range(pages):
                work(html)
            best[name] = min(best[name], (time.process_time() - began) / pages * 1_000)
    return best


def main() -> None:
    html = shop_page()
    works: dict[str, Callable[[str], None]] = {
        "bare: title, prices, links": bare_list,
        "bare: title, products, links": bare_records,
    }
    works |= {"links alone": links_alone} | {name: by_plan(asked) for name, asked in PLANS.items()}
    slow = {"markdown": works.pop("markdown")}
    took = cpu_ms(works, html) | cpu_ms(slow, html, 2, 5)
    print(f"page of {len(html)} bytes, CPU time")
    for name, its_ms in took.items():
        is_list = name in {"prices alone", "links alone"} or name == "bare: title, prices, links"
        beside = took["bare: title, prices, links" if is_list else "bare: title, products, links"]
        print(f"  {name:32} {its_ms:7.3f} ms  {its_ms / beside:6.2f}x bare")


if __name__ == "__main__":
    main()
