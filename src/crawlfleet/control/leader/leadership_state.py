"""Holds whether this master leads, and under which term. The leader's loops share it; only the leader loop sets it."""

from __future__ import annotations

import asyncio


class Lead:
    def __init__(self) -> None:
        self._term: int | None = None
        self._has_won = asyncio.Event()

    @property
    def term(self) -> int | None:
        return self._term

    def won(self, term: int) -> None:
        self._term = term
        self._has_won.set()

    async def until_won(self) -> None:
        await self._has_won.wait()

    def lost(self, term: int | None = None) -> None:
        """End `term`, or the current one if none is named. A newer term that was won meanwhile stands."""
        if term is None or term == self._term:
            self._term = None
            self._has_won.clear()
