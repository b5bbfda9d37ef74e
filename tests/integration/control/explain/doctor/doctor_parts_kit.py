"""A doctor over a real store, with a clock of its own."""

from __future__ import annotations

from crawlfleet.control.explain.doctor.doctor import Doctor
from crawlfleet.ports.clock import Clock
from crawlfleet.scheduling.doctor.snapshot import FilePart
from crawlfleet.store.engine.migrate import known_revisions
from crawlfleet.store.store import SqlStore


def make_doctor(store: SqlStore, clock: Clock) -> Doctor:
    return Doctor(
        store=store, clock=clock, read_files=FilePart, version="1.0", revisions=tuple(known_revisions()), timeout_s=300
    )
