"""The catalogue of the demo shop: the same seed always gives the same products."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil
from random import Random
from typing import Generic, TypeVar

PAGE_PRODUCTS = 20
CATEGORIES = {"kitchen": "Kitchen", "garden": "Garden", "office": "Office", "travel": "Travel", "toys": "Toys & Games"}
_ADJECTIVES = ("Blue", "Red", "Oak", "Steel", "Linen", "Tiny", "Grand", "Quiet", "Bright", "Folding", "Café", "Old")
_NOUNS = {
    "kitchen": ("Kettle", "Pan", "Teapot", "Whisk", "Board"),
    "garden": ("Spade", "Lantern", "Bench", "Hose", "Trellis"),
    "office": ("Lamp", "Stapler", "Notebook", "Chair", "Desk"),
    "travel": ("Bag", "Pillow", "Map", "Flask", "Umbrella"),
    "toys": ("Train", "Puzzle", "Kite", "Robot", "Yo-yo"),
}
_QUALITIES = [
    "well made",
    "light",
    "sturdy",
    "easy to clean",
    "made by hand",
    "good for years",
    "ships today",
    "loved by cats",
]


@dataclass(frozen=True, slots=True)
class Product:
    """A product of the demo shop."""

    number: int
    title: str
    cents: int
    category: str
    description: str
    stock: int

    @property
    def path(self) -> str:
        return f"/products/{self.number}"

    @property
    def price(self) -> str:
        """The price as the page shows it."""
        return f"${self.amount}"

    @property
    def amount(self) -> str:
        """The price in machine-readable form: 1299.00."""
        return f"{self.cents // 100}.{self.cents % 100:02}"


ProductT_co = TypeVar("ProductT_co", bound=Product, covariant=True)


class Catalogue(Generic[ProductT_co]):
    """The products of a shop, by number and by category."""

    def __init__(self, products: Iterable[ProductT_co]) -> None:
        self.products = tuple(products)
        self.by_category = {
            slug: tuple(product for product in self.products if product.category == slug) for slug in CATEGORIES
        }
        self._by_number = {product.number: product for product in self.products}
        self._index_in_category = {
            product.number: index for same in self.by_category.values() for index, product in enumerate(same)
        }

    def get_product(self, number: int) -> ProductT_co | None:
        return self._by_number.get(number)

    def related_products(self, product: Product) -> tuple[ProductT_co, ...]:
        """Return up to three other products of the same category, which the product's page links to."""
        same = self.by_category[product.category]
        index = self._index_in_category[product.number]
        around = (same[(index + step) % len(same)] for step in range(1, min(4, len(same))))
        return tuple(other for other in around if other is not product)

    def page_paths(self) -> list[str]:
        """Return the path of every page that is linked, over any number of links, from the front page."""
        paths = ["/", "/about"]
        paths += listing_paths("/products", len(self.products))
        for slug, products in self.by_category.items():
            paths += listing_paths(f"/category/{slug}", len(products))
        return paths + [product.path for product in self.products]


def make_catalogue(count: int, seed: int = 1) -> Catalogue[Product]:
    return Catalogue(make_product(number, product_random(number, seed)) for number in range(1, count + 1))


def product_random(number: int, seed: int) -> Random:
    """Return the random generator of one product: the first products are the same in shops of any size."""
    return Random(seed * 1_000_003 + number)


def make_product(number: int, rng: Random) -> Product:
    category = rng.choice(tuple(CATEGORIES))
    return Product(
        number=number,
        title=f"{rng.choice(_ADJECTIVES)} {rng.choice(_NOUNS[category])} No. {number}",
        cents=rng.randrange(199, 49_999),
        category=category,
        description=f"{', '.join(rng.sample(_QUALITIES, 4)).capitalize()}.",
        stock=rng.randrange(0, 50),
    )


def count_pages(count: int) -> int:
    """Return the number of pages of a list of `count` products."""
    return max(1, ceil(count / PAGE_PRODUCTS))


def listing_paths(path: str, count: int) -> list[str]:
    return [path, *(f"{path}?page={page}" for page in range(2, count_pages(count) + 1))]
