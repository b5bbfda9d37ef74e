"""The part of a sync about statistics of target hosts: batches are stored before the node is answered."""

from __future__ import annotations

from collections.abc import Sequence

from crawlfleet.control.support.batching import Batcher
from crawlfleet.control.tasks.finish import is_storable
from crawlfleet.errors import InvalidInput
from crawlfleet.model import limits
from crawlfleet.model.host_stats import Batch
from crawlfleet.model.ids import NodeId
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.host_store import HostStore
from crawlfleet.wire.sync import HostFiguresBody, SyncUp
from crawlfleet.wire.tasks import storage_problem

_NODES_PER_BATCH = 200


class HostStatsSync:
    def __init__(self, *, store: HostStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._batches: Batcher[Batch, bool] = Batcher(self._write_batches, max_weight=_NODES_PER_BATCH)

    async def record_batch(self, node: NodeId, body: HostFiguresBody) -> Sequence[bool]:
        """Store a batch, also one of a session that is over: its requests were sent to the sites all the same."""
        return await self._batches.put_items([Batch(node, body.session, body.number, body.hosts)])

    async def _write_batches(self, batches: list[Batch]) -> Sequence[bool]:
        return await self._store.add_figures(batches, self._clock.now())


def check_figures(up: SyncUp) -> None:
    """Check that the counts can be stored and added up. Raises InvalidInput."""
    if up.figures is None:
        return
    body = up.figures
    if (
        not is_storable(body.session, body.number)
        or body.session > up.session
        or len(body.hosts) > limits.FIGURES_PER_SYNC
    ):
        raise InvalidInput(
            f"a batch of at most {limits.FIGURES_PER_SYNC} hosts, of this session or an older one", field="figures"
        )
    for host, figures in body.hosts:
        if not 0 < len(host) <= limits.HOST_CHARS or storage_problem(host):
            raise InvalidInput(f"host names of 1 to {limits.HOST_CHARS} characters", field="figures")
        if len(figures) > limits.FIGURES_PLACES or not all(0 <= count < limits.FIGURE_MAX for count in figures):
            raise InvalidInput("counts that can be added up", field="figures")
