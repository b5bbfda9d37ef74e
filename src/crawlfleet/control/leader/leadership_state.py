"""Holds whether this master leads, and under which term. The leader's loops share it; only the leader loop sets it."""

from __future__ import annotations

import asyncio


class LeadershipState:
    def __init__(self) -> None:
        self._term: int | None = None
        self._is_leading = asyncio.Event()

    @property
    def term(self) -> int | None:
        return self._term

    def start_term(self, term: int) -> None:
        self._term = term
        self._is_leading.set()

    async def wait_for_term(self) -> None:
        await self._is_leading.wait()

    def end_term(self, term: int | None = None) -> None:
        """End `term`, or the current one if none is named. A newer term that was won meanwhile stands."""
        if term is None or term == self._term:
            self._term = None
            self._is_leading.clear()
