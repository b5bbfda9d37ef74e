"""The checks with many nodes and tasks: every read is by an index or a counter."""

from __future__ import annotations

import time

from bench.doctor import BOUND_S, add_nodes, add_waiting, make_doctor
from crawlfleet.store.store import SqlStore
from testkit.patience import promised

NODES, TASKS, LANES = 1_000, 100_000, 1_000


async def test_the_checks_stay_quick_with_many_nodes_and_tasks(store: SqlStore) -> None:
    await add_nodes(store, NODES)
    await add_waiting(store, TASKS, LANES)
    began = time.perf_counter()
    findings = await make_doctor(store).examine()
    took_s = time.perf_counter() - began
    assert took_s < promised(BOUND_S)
    sentences = {finding.check: finding.sentence for finding in findings}
    assert "tasks that no node can ever run, by filter: wrong_node_type" in sentences["D21"]
    assert sentences["D11"] == "counters agree with the rows"
