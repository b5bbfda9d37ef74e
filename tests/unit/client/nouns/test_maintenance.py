"""The calls for upkeep, against a real master."""

from __future__ import annotations

from pathlib import Path

import pytest

from crawlfleet.client.errors import ApiError
from crawlfleet.settings.master import MasterSettings
from tests.integration.bootstrap.maintenance.installations import fill, serving


async def test_each_call_counts_and_removes_nothing_unless_asked(tmp_path: Path) -> None:
    settings = MasterSettings(data_dir=tmp_path, port=0)
    ids = await fill(settings, 2)
    async with serving(settings) as client:
        await client.cancel(ids[0])
        tasks = await client.clean_up_tasks(0.0, status=["cancelled"])
        assert (tasks.applied, tasks.selected, tasks.removed) == (False, 1, 0)
        assert (await client.clean_up_tasks(0.0, project_id="other", apply=True)).removed == 0
        assert (await client.clean_up_tasks(0.0, apply=True)).removed == 1
        results = await client.clean_up_results()
        assert results.files - results.orphans == 1
        assert (await client.clean_up_nodes(60.0)).nodes == []
        with pytest.raises(ApiError, match="has trusted its clock"):
            await client.clean_up_retention()
        assert (await client.queue_sizes()).normal == 1
