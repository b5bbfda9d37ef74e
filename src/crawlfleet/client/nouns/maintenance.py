"""Calls for the upkeep of an installation: clean-up in batches, repairs."""

from __future__ import annotations

from collections.abc import Sequence

from crawlfleet.client._generated.models import (
    CountersRepaired,
    NodesCleaned,
    ReadyRepaired,
    ResultsChecked,
    ResultsCleaned,
    RetentionCleaned,
    TasksCleaned,
)
from crawlfleet.client.nouns.base import Calls


class MaintenanceCalls(Calls):
    async def clean_up_retention(self, *, apply: bool = False, cursor: str | None = None) -> RetentionCleaned:
        """Count what is past its retention; with `apply` remove a batch, and go on with `next_cursor`."""
        body = {"apply": apply, "cursor": cursor}
        return await self._transport.change(RetentionCleaned, "POST", "/clean-up/retention", body, is_repeatable=True)

    async def clean_up_tasks(
        self,
        older_than_s: float,
        *,
        status: Sequence[str] | None = None,
        project_id: str | None = None,
        task_type: str | None = None,
        apply: bool = False,
        cursor: str | None = None,
    ) -> TasksCleaned:
        """Look at the next thousand finished tasks; with `apply` remove those that the filter selects."""
        fields: dict[str, object] = {
            "status": None if status is None else list(status),
            "project_id": project_id,
            "task_type": task_type,
        }
        body = {name: value for name, value in fields.items() if value is not None}
        body |= {"older_than_s": older_than_s, "apply": apply, "cursor": cursor}
        return await self._transport.change(TasksCleaned, "POST", "/clean-up/tasks", body, is_repeatable=True)

    async def clean_up_results(self, *, apply: bool = False, cursor: str | None = None) -> ResultsCleaned:
        """Look at the next thousand files of results; with `apply` remove those that belong to no task."""
        body = {"apply": apply, "cursor": cursor}
        return await self._transport.change(ResultsCleaned, "POST", "/clean-up/results", body, is_repeatable=True)

    async def clean_up_nodes(self, gone_for_s: float, *, apply: bool = False) -> NodesCleaned:
        """Show the nodes that have been away for that span; with `apply` remove them."""
        body = {"gone_for_s": gone_for_s, "apply": apply}
        return await self._transport.change(NodesCleaned, "POST", "/clean-up/nodes", body, is_repeatable=True)

    async def repair_counters(self, *, apply: bool = False) -> CountersRepaired:
        """Count the tasks anew and compare them with the counters; with `apply` correct these."""
        body = {"apply": apply}
        return await self._transport.change(CountersRepaired, "POST", "/repair/counters", body)

    async def repair_ready(self) -> ReadyRepaired:
        """Drop the ready index: the leader fills it again from the store."""
        return await self._transport.change(ReadyRepaired, "POST", "/repair/ready", is_repeatable=True)

    async def check_results(self, cursor: str | None = None) -> ResultsChecked:
        """Look for missing chunks of the next thousand finished tasks."""
        body = {"cursor": cursor}
        return await self._transport.change(ResultsChecked, "POST", "/repair/results", body, is_repeatable=True)
