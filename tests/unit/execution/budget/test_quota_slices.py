"""The node's wants of days: said with every sync until they are answered, and answered to whom they belong."""

from __future__ import annotations

from crawlfleet.execution.budget.quota_slices import QuotaSlices
from crawlfleet.wire.sync import SliceBody, SliceWantBody


class Node:
    def __init__(self) -> None:
        self.told: list[float] = []
        self.given: list[SliceBody] = []
        self.slices = QuotaSlices()
        self.slices.attach_sync(self.told.append)

    def want(self, execution: int, number: int) -> SliceWantBody:
        body = SliceWantBody(1, execution, number, 10, 0)
        self.slices.request_slice(body, self.given.append)
        return body


def test_a_want_goes_at_once_and_with_every_sync_until_it_is_answered() -> None:
    node = Node()
    want = node.want(7, 1)
    assert node.told == [0.0]
    assert node.slices.pending_requests() == node.slices.pending_requests() == [want]
    answer = SliceBody(7, 1, 10, 0)
    assert node.slices.apply_slices([answer])
    assert (node.slices.pending_requests(), node.given) == ([], [answer])
    assert not node.slices.apply_slices([answer]), "a second time is no news"


def test_an_older_answer_leaves_the_want() -> None:
    node = Node()
    node.want(7, 1)
    newer = node.want(7, 2)
    assert not node.slices.apply_slices([SliceBody(7, 1, 10, 0)])
    assert node.slices.pending_requests() == [newer]
    assert len(node.given) == 1, "what was granted counts all the same"


def test_an_execution_that_is_over_wants_nothing() -> None:
    node = Node()
    node.want(7, 1)
    other = node.want(8, 1)
    node.slices.forget_execution(7)
    assert node.slices.pending_requests() == [other]
    assert not node.slices.apply_slices([SliceBody(7, 1, 10, 0)])
    assert node.given == []
