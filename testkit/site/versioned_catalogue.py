"""The catalogue of the test site: a later version of the shop has new products, changed ones, and some are gone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import ceil
from random import Random

from crawlfleet.demo_shop.catalogue import Catalogue, Product, make_product, product_random
from crawlfleet.demo_shop.site import OPENED_AT
from testkit.site.price_notations import NOTATIONS, PLAIN, Notation, amount, shown

MARKUPS = ("json-ld", "graph", "microdata", "open-graph", "none", "broken", "stale", "offers")
"""Kinds of markup by which a product's page describes itself to machines. `broken` cannot be parsed, `stale` names last
week's price."""
_GONE, _CHANGED = 0.02, 0.10
"""Shares of the products that go or change, from one version of the shop to the next."""


@dataclass(frozen=True, slots=True)
class SiteProduct(Product):
    """A product of the test site, with its own price notation and kind of markup."""

    notation: Notation = PLAIN
    markup: str = "json-ld"
    since: int = 1
    """Version of the shop that brought the product, or changed it last."""

    @property
    def price(self) -> str:
        """The price as the page shows it."""
        return shown(self.cents, self.notation)

    @property
    def amount(self) -> str:
        """The price in machine-readable form."""
        return amount(self.cents, self.notation)


class VersionedCatalogue(Catalogue[SiteProduct]):
    """The products of one version of the shop.

    Plain: prices in dollars, and JSON-LD on every page. Otherwise each product has its own notation and markup.
    """

    def __init__(self, count: int, seed: int = 1, version: int = 1, *, is_plain: bool = True) -> None:
        self.made = count + (version - 1) * new_in_each(count)
        """Number of product numbers that were ever used."""
        super().__init__(_make_products(range(1, self.made + 1), seed, version, count, is_plain))

    def is_gone(self, number: int) -> bool:
        return 1 <= number <= self.made and self.get_product(number) is None


def changed_at(version: int) -> datetime:
    """Return the date of a version: a day of the shop's own calendar, the same for each client at any time."""
    return OPENED_AT + timedelta(days=version - 1)


def new_in_each(count: int) -> int:
    """Return the number of products that each version adds."""
    return ceil(count / 100)


def _make_products(numbers: range, seed: int, version: int, count: int, is_plain: bool) -> Iterator[SiteProduct]:
    for number in numbers:
        product = _make_product(number, seed, version, count, is_plain)
        if product is not None:
            yield product


def _make_product(number: int, seed: int, version: int, count: int, is_plain: bool) -> SiteProduct | None:
    rng = product_random(number, seed)
    made = make_product(number, rng)
    product = SiteProduct(made.number, made.title, made.cents, made.category, made.description, made.stock)
    if not is_plain:
        # Few are expensive, so that thousands separators occur.
        dear = rng.choice((1, 1, 1, 40))
        product = replace(
            product, notation=rng.choice(NOTATIONS), markup=rng.choice(MARKUPS), cents=product.cents * dear
        )
    since = _first_version(number, count)
    for step in range(since + 1, version + 1):
        change = Random(f"{seed}:{number}:{step}")
        fate = change.random()
        if fate < _GONE:
            return None
        if fate < _GONE + _CHANGED:
            since = step
            product = replace(product, cents=product.cents + change.randrange(1, 500), stock=change.randrange(0, 50))
    return replace(product, since=since) if since > 1 else product


def _first_version(number: int, count: int) -> int:
    return 1 if number <= count else 1 + ceil((number - count) / new_in_each(count))
