"""Weighted fair shares between projects: stride scheduling, by start-time tags.

Each project has a tag: how much it has been served, in tasks over weight. The smallest tag goes first, and the virtual
time is the tag of the project served last. No tag is behind the virtual time: a project that comes, or comes back after
it had nothing that could be placed, begins at the present one. So it neither makes up for its absence at the others'
cost nor waits for its old turns to be forgotten.

The bound: over any span in which two projects both have work of one rank that could be placed, the numbers of their
placed tasks over their weights differ by at most one turn over its weight each (`placed_a / w_a` and `placed_b / w_b`
by no more than `turn / w_a + turn / w_b`).

A rank (an effective priority) has its own virtual time: tasks that were placed for being more urgent do not count
against their project among equals.
"""

from __future__ import annotations

_MAX_PROJECTS = 1_000


class FairShares:
    """The fair shares of the projects at one rank."""

    __slots__ = ("_tags", "_virtual_time")

    def __init__(self) -> None:
        self._virtual_time = 0.0
        self._tags: dict[str, float] = {}
        """Tags ahead of the virtual time, by project; a project without one stands at it."""

    def project_tag(self, project: str) -> float:
        tag = self._tags.get(project, self._virtual_time)
        return tag if tag > self._virtual_time else self._virtual_time

    def record_served(self, project: str, count: int, weight: float) -> float:
        """Record that `count` tasks were placed; returns the project's new tag."""
        self._virtual_time = self.project_tag(project)
        after = self._tags[project] = self._virtual_time + count / weight
        if len(self._tags) > _MAX_PROJECTS:
            self._drop_old_tags()
        return after

    def _drop_old_tags(self) -> None:
        self._tags = {project: tag for project, tag in self._tags.items() if tag > self._virtual_time}


class FairSharesByRank:
    """The leader's memory of the projects served, by rank; a new leader begins with an empty one."""

    def __init__(self) -> None:
        self._ranks: dict[int, FairShares] = {}

    def __getitem__(self, rank: int) -> FairShares:
        shares = self._ranks.get(rank)
        if shares is None:
            shares = self._ranks[rank] = FairShares()
        return shares
