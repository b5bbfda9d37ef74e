"""The doctor over real stores: all checks of a healthy store, and a store that fails in parts."""

from __future__ import annotations

import asyncio

import pytest

from crawlfleet.control.explain.doctor import doctor as doctor_module
from crawlfleet.errors import StoreUnavailable
from crawlfleet.ports.clock import SystemClock
from crawlfleet.scheduling.doctor.check_list import CHECKS, select_checks
from crawlfleet.scheduling.doctor.findings import FindingSeverity
from crawlfleet.store.store import SqlStore
from tests.integration.control.explain.doctor.doctor_parts_kit import make_doctor


async def test_a_new_store_has_no_error(store: SqlStore) -> None:
    findings = await make_doctor(store, SystemClock()).examine()
    assert {finding.check for finding in findings} == {check.id for check in CHECKS}
    errors = [finding.sentence for finding in findings if finding.severity is FindingSeverity.ERROR]
    # The server of the tests commits without waiting for its disk, which the check of that finds.
    assert all("synchronous_commit off" in sentence for sentence in errors)
    notes = {finding.check: finding.sentence for finding in findings if finding.severity is FindingSeverity.NOTE}
    assert notes["D1"] == "not checked: no master runs"
    assert notes["D9"].startswith("no master runs")


@pytest.mark.parametrize("failure", [StoreUnavailable("PostgreSQL: gone"), KeyError("a column"), TimeoutError()])
async def test_a_part_that_fails_is_a_note_of_its_checks(
    store: SqlStore, failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise failure

    monkeypatch.setattr(store, "list_tokens", fail)
    findings = await make_doctor(store, SystemClock()).examine(select_checks(["care"]))
    (tokens,) = [finding for finding in findings if finding.check == "D28"]
    assert tokens.severity is FindingSeverity.NOTE
    assert tokens.sentence.startswith("not checked: ")
    assert any(finding.check == "D29" and "no channel" in finding.sentence for finding in findings)


async def test_a_store_that_hangs_is_given_up(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(store, "list_tokens", hang)
    monkeypatch.setattr(doctor_module, "PART_S", 0.05)
    (finding,) = await make_doctor(store, SystemClock()).examine(select_checks(["D28"]))
    assert finding.sentence == "not checked: it took more than 0 s to read"


async def test_only_the_parts_of_the_chosen_checks_are_read(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> None:
        raise AssertionError("this part was not wanted")

    monkeypatch.setattr(store, "placement_view", fail)
    (finding,) = await make_doctor(store, SystemClock()).examine(select_checks(["D30"]))
    assert finding.check == "D30"
