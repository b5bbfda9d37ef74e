"""What the node's metered executions want of their projects' days, until a master has answered.

Every sync carries all wants that are not answered: a lost call or a lost answer needs no bookkeeping, as the store
grants each number of an execution once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

from crawlfleet.model import limits
from crawlfleet.wire.sync import SliceBody, SliceWantBody

Give = Callable[[SliceBody], None]


class DaySlices:
    def __init__(self) -> None:
        self._wants: dict[int, SliceWantBody] = {}
        self._gives: dict[int, Give] = {}
        self._tell: Callable[[float], None] = _unheard

    def attach(self, tell: Callable[[float], None]) -> None:
        """`tell` is asked for a sync within so many seconds."""
        self._tell = tell

    def want(self, body: SliceWantBody, give: Give) -> None:
        """For an execution that runs here; `give` takes the answers to it."""
        self._wants[body.execution] = body
        self._gives[body.execution] = give
        self._tell(0.0)

    def forget(self, execution: int) -> None:
        """It is over."""
        self._wants.pop(execution, None)
        self._gives.pop(execution, None)

    def up(self) -> list[SliceWantBody]:
        return list(islice(self._wants.values(), limits.SLOTS_MAX))

    def take(self, slices: Sequence[SliceBody]) -> bool:
        """Whether any was news."""
        is_new = False
        for body in slices:
            want, give = self._wants.get(body.execution), self._gives.get(body.execution)
            if want is not None and body.number >= want.number:
                del self._wants[body.execution]
                is_new = True
            if give is not None:
                give(body)
        return is_new


def _unheard(_within_s: float) -> None:
    """For a node that speaks to nobody yet."""
