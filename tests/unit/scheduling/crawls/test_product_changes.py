"""What looks at a product make of what is known of it, in any order."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.model.product import ChangeKind, Product, ProductChange, ProductRecord, content_hash
from crawlfleet.scheduling.crawls.product_changes import VALUE_CHARS, changed_fields, compare_product

POT = Product("shop.test", "1", "http://shop.test/1", "Pot", "5", "EUR", "in_stock", {"color": "red"})
LOOKS = st.lists(st.sampled_from(["5", "6", "7", None]), max_size=12)
"""The price at each look; None where it is gone."""


def after(looks: list[str | None]) -> tuple[ProductRecord | None, list[ProductChange]]:
    known: ProductRecord | None = None
    changes = []
    for now, price in enumerate(looks):
        look = POT._replace(price=price) if price else Product("shop.test", "1", POT.url, is_gone=True)
        if (found := compare_product(known, "spring", look, 100 + now, now)) is not None:
            known = found.after
            changes += [found.change] if found.change else []
    return known, changes


@given(LOOKS)
def test_the_record_is_what_was_seen_last(looks: list[str | None]) -> None:
    known, changes = after(looks)
    prices = [price for price in looks if price]
    if known is None:
        assert not prices
        return
    assert known.product.price == prices[-1]
    assert (known.gone_at is not None) == (looks[-1] is None)
    assert known.first_seen_at == next(at for at, price in enumerate(looks) if price)
    assert known.seen_at == max(at for at, price in enumerate(looks) if price)
    assert known.hash == content_hash(known.product)
    assert [change.number for change in changes] == list(range(1, known.changes + 1))
    assert known.changed_at == changes[-1].at


@given(LOOKS, st.integers(0, 12))
def test_a_sync_is_the_difference_of_two_sets(looks: list[str | None], since: int) -> None:
    """By the instants alone, which is all that is kept: what was there before, and what is there after."""
    before, _ = after(looks[:since])
    known, _ = after(looks)
    was_there, is_there = (one is not None and one.gone_at is None for one in (before, known))
    if known is None:
        assert not is_there
        return
    is_new = known.gone_at is None and known.listed_at >= since
    is_gone = known.gone_at is not None and known.gone_at >= since and known.listed_at < since
    # One that went and came back within the span is told as new, which it is to whoever looked in between.
    came_back = was_there and is_there and known.listed_at >= since
    assert is_new == (is_there and not was_there) or came_back
    went_twice = was_there and not is_there and known.listed_at >= since
    assert is_gone == (was_there and not is_there) or went_twice


@given(LOOKS)
def test_the_same_looks_again_change_nothing_but_when(looks: list[str | None]) -> None:
    known, _ = after(looks)
    if known is None:
        return
    last = known.product if known.gone_at is None else known.product._replace(is_gone=True)
    again = compare_product(known, "spring", last, known.execution, 50)
    assert again is None if known.gone_at is not None else again is not None
    if again is not None:
        assert (again.after, again.change) == (replace(known, seen_at=50), None)


def test_the_difference_is_told_by_field() -> None:
    later = POT._replace(price="6", attributes={"size": "x" * 5_000, "rating": "4", "sources": ["json_ld"]})
    assert changed_fields(POT, later) == {
        "price": ["5", "6"],
        "color": ["red", None],
        "size": [None, "x" * VALUE_CHARS],
    }
    assert changed_fields(POT, POT._replace(url="http://shop.test/2")) == {}


def test_kinds_of_changes() -> None:
    _, changes = after(["5", "5", "6", None, None, "6", "6"])
    assert [change.kind for change in changes] == [ChangeKind.NEW, ChangeKind.CHANGED, ChangeKind.GONE, ChangeKind.BACK]
