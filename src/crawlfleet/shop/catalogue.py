"""What the shop sells: the same products for the same seed, always."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from math import ceil
from random import Random

from crawlfleet.shop.prices import NOTATIONS, PLAIN, Notation, amount, shown

PAGE_PRODUCTS = 20
CATEGORIES = {"kitchen": "Kitchen", "garden": "Garden", "office": "Office", "travel": "Travel", "toys": "Toys & Games"}
_LOOKS = ("Blue", "Red", "Oak", "Steel", "Linen", "Tiny", "Grand", "Quiet", "Bright", "Folding", "Café", "Old")
_THINGS = {
    "kitchen": ("Kettle", "Pan", "Teapot", "Whisk", "Board"),
    "garden": ("Spade", "Lantern", "Bench", "Hose", "Trellis"),
    "office": ("Lamp", "Stapler", "Notebook", "Chair", "Desk"),
    "travel": ("Bag", "Pillow", "Map", "Flask", "Umbrella"),
    "toys": ("Train", "Puzzle", "Kite", "Robot", "Yo-yo"),
}
_WORDS = [
    "well made",
    "light",
    "sturdy",
    "easy to clean",
    "made by hand",
    "good for years",
    "ships today",
    "loved by cats",
]


MARKUPS = ("json-ld", "graph", "microdata", "open-graph", "none", "broken", "stale", "offers")
"""How a product's page tells machines what it shows. `broken` cannot be parsed, `stale` names last week's price."""
_GONE, _CHANGED = 0.02, 0.10
"""Shares of the products, from one version of the shop to the next."""


@dataclass(frozen=True, slots=True)
class Product:
    number: int
    title: str
    cents: int
    category: str
    description: str
    stock: int
    notation: Notation = PLAIN
    markup: str = "json-ld"
    since: int = 1
    """The version of the shop that brought it, or changed it last."""

    @property
    def path(self) -> str:
        return f"/products/{self.number}"

    @property
    def price(self) -> str:
        """As the page shows it."""
        return shown(self.cents, self.notation)

    @property
    def amount(self) -> str:
        """As a machine reads it."""
        return amount(self.cents, self.notation)


class Catalogue:
    """The products of one version of the shop. A later version has new ones, changed ones, and some are gone.

    Plain: prices in dollars, and JSON-LD on every page. Otherwise each product has its own notation and markup.
    """

    def __init__(self, count: int, seed: int = 1, version: int = 1, *, is_plain: bool = True) -> None:
        made = count + (version - 1) * new_in_each(count)
        kept = (_product(number, seed, version, count, is_plain) for number in range(1, made + 1))
        self.products = tuple(product for product in kept if product is not None)
        self.made = made
        """So many numbers were ever given away."""
        self.by_category = {
            slug: tuple(product for product in self.products if product.category == slug) for slug in CATEGORIES
        }
        self._by_number = {product.number: product for product in self.products}
        self._place = {product.number: at for same in self.by_category.values() for at, product in enumerate(same)}

    def product(self, number: int) -> Product | None:
        return self._by_number.get(number)

    def is_gone(self, number: int) -> bool:
        return 1 <= number <= self.made and number not in self._by_number

    def related(self, product: Product) -> tuple[Product, ...]:
        same = self.by_category[product.category]
        at = self._place[product.number]
        around = (same[(at + step) % len(same)] for step in range(1, min(4, len(same))))
        return tuple(other for other in around if other is not product)

    def paths(self) -> list[str]:
        """Every page that links lead to from the front page of the plain shop."""
        paths = ["/", "/about"]
        paths += listing_paths("/products", len(self.products))
        for slug, products in self.by_category.items():
            paths += listing_paths(f"/category/{slug}", len(products))
        return paths + [product.path for product in self.products]


def changed_at(version: int) -> datetime:
    """A version is a day of the shop's own calendar: the same for everybody who asks, whenever."""
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=version - 1)


def new_in_each(count: int) -> int:
    """Products that each version brings."""
    return ceil(count / 100)


def pages(count: int) -> int:
    return max(1, ceil(count / PAGE_PRODUCTS))


def listing_paths(path: str, count: int) -> list[str]:
    return [path, *(f"{path}?page={page}" for page in range(2, pages(count) + 1))]


def _product(number: int, seed: int, version: int, count: int, is_plain: bool) -> Product | None:
    # One generator per product: a shop of 200 begins like a shop of 5,000.
    rng = Random(seed * 1_000_003 + number)
    category = rng.choice(tuple(CATEGORIES))
    product = Product(
        number=number,
        title=f"{rng.choice(_LOOKS)} {rng.choice(_THINGS[category])} No. {number}",
        cents=rng.randrange(199, 49_999),
        category=category,
        description=f"{', '.join(rng.sample(_WORDS, 4)).capitalize()}.",
        stock=rng.randrange(0, 50),
    )
    if not is_plain:
        # Few are dear, so that thousands are separated somewhere.
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
