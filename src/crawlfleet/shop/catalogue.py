"""What the shop sells: the same products for the same seed, always."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from random import Random

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


@dataclass(frozen=True, slots=True)
class Product:
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
        return f"${self.cents // 100}.{self.cents % 100:02}"


class Catalogue:
    def __init__(self, count: int, seed: int = 1) -> None:
        self.products = tuple(_product(number, seed) for number in range(1, count + 1))
        self.by_category = {
            slug: tuple(product for product in self.products if product.category == slug) for slug in CATEGORIES
        }

    def product(self, number: int) -> Product | None:
        return self.products[number - 1] if 1 <= number <= len(self.products) else None

    def related(self, product: Product) -> tuple[Product, ...]:
        same = self.by_category[product.category]
        at = same.index(product)
        return tuple(other for other in (same + same)[at + 1 : at + 4] if other is not product)

    def paths(self) -> list[str]:
        """Every page that links lead to from the front page."""
        paths = ["/", "/about"]
        paths += listing_paths("/products", len(self.products))
        for slug, products in self.by_category.items():
            paths += listing_paths(f"/category/{slug}", len(products))
        return paths + [product.path for product in self.products]


def pages(count: int) -> int:
    return max(1, ceil(count / PAGE_PRODUCTS))


def listing_paths(path: str, count: int) -> list[str]:
    return [path, *(f"{path}?page={page}" for page in range(2, pages(count) + 1))]


def _product(number: int, seed: int) -> Product:
    # One generator per product: a shop of 200 begins like a shop of 5,000.
    rng = Random(seed * 1_000_003 + number)
    category = rng.choice(tuple(CATEGORIES))
    return Product(
        number=number,
        title=f"{rng.choice(_LOOKS)} {rng.choice(_THINGS[category])} No. {number}",
        cents=rng.randrange(199, 49_999),
        category=category,
        description=f"{', '.join(rng.sample(_WORDS, 4)).capitalize()}.",
        stock=rng.randrange(0, 50),
    )
