"""A page to the product it sells: what shops really write, and what becomes of contradictions."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlfleet.execution.crawl.parse.extract.extraction_plan import compile_plan
from crawlfleet.execution.crawl.parse.page_parser import ParseRequest, parse_page
from crawlfleet.execution.crawl.products.product import ProductPage, extract_product, shop_name
from crawlfleet.execution.crawl.products.product_offers import (
    first_text,
    normalise_amount,
    normalise_availability,
    read_price,
)
from crawlfleet.execution.crawl.products.product_plan import extraction_parameters, make_product_page, selector_problems
from crawlfleet.model.product import Product, content_hash, product_key
from crawlfleet.wire.products import decode_products, product_body
from testkit.site import product_pages, structured_data
from testkit.site.versioned_catalogue import VersionedCatalogue

URL = "https://www.shop.test/p/blue-kettle?ref=list"
SELECTORS = {"product": "div.product", "title": "h2.title", "price": "span.price"}


def read_product(html: str, selectors: dict[str, Any] | None = None, url: str = URL) -> Product | None:
    plan = compile_plan(extraction_parameters(selectors))
    return extract_product(make_product_page(url, parse_page(ParseRequest(html, url, plan.source, None, False))))


def ld(*things: Any) -> str:
    return "".join(f'<script type="application/ld+json">{json.dumps(thing)}</script>' for thing in things)


def kettle(**more: Any) -> dict[str, Any]:
    offer = {"@type": "Offer", "price": "39.90", "priceCurrency": "EUR", "availability": "https://schema.org/InStock"}
    return {
        "@context": "https://schema.org",
        "@type": "Product",
        "name": "Kettle",
        "sku": "K-1",
        "offers": offer,
    } | more


def test_a_usual_page() -> None:
    found = read_product(
        ld(
            kettle(
                brand={"@type": "Brand", "name": "Boil & Co"},
                image=["/a.jpg", {"@type": "ImageObject", "url": "b.jpg"}],
                gtin13="4006381333931",
                aggregateRating={"ratingValue": 4.5, "reviewCount": "12"},
                description=" A  kettle ",
            )
        )
    )
    assert found is not None
    assert found[:7] == ("shop.test", "K-1", URL, "Kettle", "39.90", "EUR", "in_stock")
    assert found.attributes == {
        "brand": "Boil & Co",
        "images": ["https://www.shop.test/a.jpg", "https://www.shop.test/p/b.jpg"],
        "description": "A kettle",
        "rating": "4.5",
        "reviews": "12",
        "sku": "K-1",
        "gtin": "4006381333931",
        "sources": ["json_ld"],
    }


@pytest.mark.parametrize("number", range(1, 61))
def test_every_markup_of_the_nasty_shop(number: int) -> None:
    catalogue = VersionedCatalogue(60, is_plain=False)
    product = catalogue.get_product(number)
    assert product is not None
    html = product_pages.write_product(product, catalogue, 0)
    found = read_product(html, SELECTORS, f"http://127.0.0.1:8001{product.path}")
    assert found is not None
    expected = structured_data.make_item(product)
    is_named = product.markup not in ("none", "broken")
    assert (found.shop, found.title) == ("127.0.0.1:8001", product.title)
    assert found.id == (expected["sku"] if is_named else product.path)
    assert found.price is not None
    shown = Decimal(expected["price"])
    assert Decimal(found.price) == (shown + 10 if product.markup == "stale" else shown)
    if product.markup == "stale":
        assert found.attributes["conflicts"] == {"price": {"selectors": normalise_amount(expected["price"])}}
    elif is_named:
        assert found.currency == expected["currency"]
        assert "conflicts" not in found.attributes


@pytest.mark.parametrize(
    ("offers", "price", "currency", "most"),
    [
        (
            {"@type": "AggregateOffer", "lowPrice": 10, "highPrice": "15.5", "priceCurrency": "usd"},
            "10",
            "USD",
            "15.50",
        ),
        ([{"price": "20", "priceCurrency": "EUR"}, {"price": 12.0, "priceCurrency": "EUR"}], "12", "EUR", "20"),
        ({"priceSpecification": [{"price": "1,299.00", "priceCurrency": "GBP"}]}, "1299", "GBP", None),
        ({"price": "€ 1.299,50"}, "1299.50", "EUR", None),
        ({"@type": "AggregateOffer", "offers": [{"price": 3, "priceCurrency": "JPY"}]}, "3", "JPY", None),
        ({"price": "call us", "priceCurrency": "EUR"}, None, "EUR", None),
        ({"price": None}, None, None, None),
        ([], None, None, None),
        ("free", None, None, None),
    ],
)
def test_offers_in_their_many_ways(offers: Any, price: str | None, currency: str | None, most: str | None) -> None:
    found = read_product(ld(kettle(offers=offers)))
    assert found is not None
    assert (found.price, found.currency, found.attributes.get("price_max")) == (price, currency, most)


def test_variants_are_offers_of_their_group() -> None:
    group = {
        "@type": "ProductGroup",
        "name": "Shirt",
        "productGroupID": "S",
        "hasVariant": [
            {"sku": "S-1", "offers": {"price": 9, "priceCurrency": "EUR", "availability": "SoldOut"}},
            {"sku": "S-2", "offers": {"price": 7, "priceCurrency": "EUR", "availability": "InStock"}},
        ],
    }
    found = read_product(ld(group))
    assert found is not None
    assert (found.id, found.price, found.attributes["price_max"], found.availability) == ("S", "7", "9", "in_stock")


def test_the_id_is_the_first_there_is() -> None:
    def of(**more: Any) -> str:
        found = read_product(ld({**kettle(), "sku": "", **more}))
        assert found is not None
        return found.id

    assert of(sku=17, productID="P") == "17"
    assert of(productID="P", gtin="4006381333931") == "P"
    assert of(gtin="4006381333931") == "4006381333931"
    assert of() == "/p/blue-kettle?ref=list"


def test_without_an_id_the_canonical_address_is_one() -> None:
    page = '<link rel="canonical" href="ADDRESS">' + ld({**kettle(), "sku": None})
    for address, expected in (
        ("/p/blue-kettle", "/p/blue-kettle"),
        ("https://shop.test/p/kettle", "/p/kettle"),
        ("https://elsewhere.test/p/kettle", "/p/blue-kettle?ref=list"),
        ("javascript:1", "/p/blue-kettle?ref=list"),
    ):
        found = read_product(page.replace("ADDRESS", address))
        assert found is not None
        assert found.id == expected, address


def test_sources_fill_each_others_gaps_in_order() -> None:
    html = (
        ld({"@type": "Product", "name": "Kettle"})
        + '<div itemscope itemtype="https://schema.org/Product"><b itemprop="name">KETTLE!</b><i itemprop="sku">K-1</i>'
        + '<span itemprop="offers" itemscope><b itemprop="price" content="5.00"></b></span></div>'
        + '<meta property="og:type" content="product"><meta property="product:price:amount" content="6">'
        + '<meta property="product:price:currency" content="SEK"><meta property="product:availability" content="oos">'
    )
    found = read_product(html)
    assert found is not None
    assert found[1:7] == ("K-1", URL, "Kettle", "5", "SEK", "out_of_stock")
    assert found.attributes["conflicts"] == {"price": {"open_graph": "6"}}
    assert found.attributes["sources"] == ["json_ld", "microdata", "open_graph"]


def test_pages_that_are_about_a_product() -> None:
    assert read_product(ld({"@type": "ItemPage", "mainEntity": kettle()})) is not None
    assert read_product(ld({"@type": ["Thing", "http://schema.org/Product"], "name": "A"})) is not None
    offer = {"@type": "Offer", "price": 5, "priceCurrency": "EUR", "itemOffered": {"@type": "Product", "name": "A"}}
    found = read_product(ld(offer))
    assert found is not None
    assert (found.price, found.currency) == ("5", "EUR")


def test_a_list_is_no_product() -> None:
    others = [kettle(name=f"Other {at}", sku=str(at), url=f"/p/{at}") for at in range(3)]
    assert read_product(ld(*others)) is None
    card = '<div class="product"><h2 class="title">A</h2><span class="price">$5</span></div>'
    assert read_product(card * 2, SELECTORS) is None
    assert read_product(card, SELECTORS) is not None
    own = kettle(url="http://shop.test/p/blue-kettle?ref=list")
    found = read_product(ld(*others, own))
    assert found is not None
    assert found.id == "K-1"


def test_pages_without_a_product() -> None:
    for html in (
        "",
        "<title>About us</title>",
        ld({"@type": "Organization", "name": "Shop"}),
        ld({"@type": "Product"}),
        '<meta property="og:type" content="website">',
        ld(5, None, "Product", [[]]),
    ):
        assert read_product(html) is None, html
    assert read_product('<h2 class="title">No price</h2>', {"title": "h2", "price": ".price"}) is None


def test_selectors_say_more_than_texts() -> None:
    html = '<h1>Pot</h1><b class="p">12,50</b><i data-id="77"></i><em>blue</em><img src="/x.png">'
    found = read_product(
        html,
        {
            "title": "h1",
            "price": {"selector": "b.p", "type": "price", "currency": "EUR"},
            "image": "img",
            "id": {"selector": "i", "attribute": "data-id"},
            "tone": "em",
        },
    )
    assert found is not None
    assert (found.id, found.price, found.currency) == ("77", "12.50", "EUR")
    assert found.attributes == {"images": ["https://www.shop.test/x.png"], "tone": "blue", "sources": ["selectors"]}


def test_selectors_that_do_not_parse_are_named() -> None:
    wrong = selector_problems({"product": "div[", "title": "h1", "price": {"selector": "b:has(", "type": "price"}})
    assert {path for path, _ in wrong} == {"selectors.price", "selectors.product"}
    assert selector_problems({"product": "div"})[0][0] == "selectors.product"
    assert selector_problems(None) == selector_problems(SELECTORS) == []


def test_hostile_values_stay_small() -> None:
    deep: Any = {"offers": {"price": 5}}
    for _ in range(50):
        deep = {"offers": [deep]}
    long = "x" * 100_000
    found = read_product(
        ld(
            kettle(
                name=long,
                sku=long,
                description=long,
                offers=[deep] * 50,
                image=[f"/{at}.jpg" for at in range(500)],
                brand={"name": [long]},
                category={"a": 1},
                color=[[["red"]]],
            )
        )
    )
    assert found is not None
    assert len(found.title) == 500
    assert len(found.id) == 200
    assert len(json.dumps(found.attributes)) < 16 << 10
    one, other = (read_product(ld(kettle(sku=None)), url=f"{URL}{'y' * 500}{end}") for end in "ab")
    assert one is not None
    assert other is not None
    assert one.id != other.id
    assert len(one.id) == len(other.id) == 200
    html = (
        f'<meta property="product:price:amount" content="5"><meta property="product:price:currency" content="{long}">'
    )
    graph = read_product(
        f"<title>\U0001f9b4{long}</title>{html}<meta property='og:description' content='{'é' * 9_000}'>"
    )
    for found in (one, other, graph):
        assert found is not None
        assert decode_products([msgspec.Raw(msgspec.json.encode(product_body(found)))]) == [found]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("https://schema.org/InStock", "in_stock"),
        ("in stock", "in_stock"),
        ("http://schema.org/PreOrder", "preorder"),
        ("Sold Out", "sold_out"),
        ("", None),
        ("schema.org/", None),
        ("Soon", "soon"),
    ],
)
def test_words_for_the_stock(text: str, word: str | None) -> None:
    assert normalise_availability(text) == word


def test_amounts_have_one_spelling() -> None:
    assert [normalise_amount(text) for text in ("12.5", "12.50", "1299.00", "0.999", "-1", "1e400", "x", "NaN")] == [
        "12.50",
        "12.50",
        "1299",
        "0.999",
        None,
        None,
        None,
        None,
    ]
    assert read_price(12.0) == ("12", None)
    assert read_price(True) == (None, None)


@given(st.decimals(min_value=0, max_value=10**9, places=2))
def test_an_amount_keeps_its_value(value: Decimal) -> None:
    said = normalise_amount(str(value))
    assert said is not None
    assert Decimal(said) == value
    assert normalise_amount(said) == said


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["@type", "name", "offers", "price", "sku", "image", "brand", "url", "hasVariant", "aggregateRating"]
            ),
            inner,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=50)
@given(_JSON)
def test_whatever_a_page_says_is_read(said: Any) -> None:
    first_text(said)
    thing = said if isinstance(said, dict) else {"offers": said, "name": said, "image": said, "aggregateRating": said}
    found = extract_product(
        ProductPage("http://shop.test/p", {"json_ld": [{**thing, "@type": "Product"}], "open_graph": {}})
    )
    if found is not None:
        assert found.title
        assert len(content_hash(found)) == 32
        assert decode_products([msgspec.Raw(msgspec.json.encode(product_body(found)))]) == [found]


def test_what_makes_a_product_another() -> None:
    one = Product(
        "shop.test", "1", "http://shop.test/1", "Pot", "5", "EUR", "in_stock", {"rating": "4", "color": "red"}
    )
    assert content_hash(one) == content_hash(one._replace(url="http://shop.test/other", attributes={"color": "red"}))
    for other in (one._replace(price="6"), one._replace(attributes={"color": "blue"}), one._replace(title="Pan")):
        assert content_hash(other) != content_hash(one)
    assert product_key("", "shop.test", "1") != product_key("shop.test", "", "1") > 0
    assert shop_name("https://www.shop.test:8443/x") == "shop.test:8443"
