"""Whether this master leads, and under which term. Shared by the leader's loops; only the leader loop sets it."""

from __future__ import annotations


class Lead:
    def __init__(self) -> None:
        self._term: int | None = None

    @property
    def term(self) -> int | None:
        return self._term

    def won(self, term: int) -> None:
        self._term = term

    def lost(self, term: int | None = None) -> None:
        """`term` is over (or whichever we hold). A newer one we have won meanwhile stands."""
        if term is None or term == self._term:
            self._term = None
