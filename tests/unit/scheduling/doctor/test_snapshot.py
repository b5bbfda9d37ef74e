"""Parts of a snapshot: what of them counts."""

from crawlfleet.scheduling.doctor.snapshot import MasterPart, QueuePause, WorkPart
from tests.unit.scheduling.doctor.doctor_kit import master, waiting


def test_masters_that_fell_silent_are_not_alive() -> None:
    alive, silent = master(), master("m2", 2, silent_ms=60_000)
    assert MasterPart([silent, alive], "").alive == [alive]


def test_lanes_of_paused_queues_are_not_open() -> None:
    paused, other = waiting(queue="slow"), waiting()
    assert WorkPart([paused, other], paused={"slow": QueuePause()}).open_lanes == [other]
