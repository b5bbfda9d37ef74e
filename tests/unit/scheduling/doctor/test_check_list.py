"""All checks together: what is in order, what cannot be checked, and which are chosen."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.scheduling.doctor.check_list import AREAS, CHECKS, OPTIONAL, needed_parts, run_checks, select_checks
from crawlfleet.scheduling.doctor.findings import FindingSeverity
from crawlfleet.scheduling.doctor.snapshot import Snapshot, Unchecked
from tests.unit.scheduling.doctor.doctor_kit import healthy

ROOT = Path(__file__).resolve().parents[4]
PARTS = sorted({*Snapshot.__dataclass_fields__} - {"now", "version"})


def test_nothing_is_said_of_an_installation_in_order() -> None:
    findings = run_checks(healthy())
    assert {finding.check: finding.sentence for finding in findings if finding.severity is not FindingSeverity.OK} == {}
    assert [finding.check for finding in findings] == [check.id for check in CHECKS]


def test_the_checks_have_ids_of_their_own_in_order() -> None:
    numbers = [int(check.id.removeprefix("D")) for check in CHECKS]
    assert numbers == sorted(set(numbers))
    assert set(range(1, 31)) - {15} == set(numbers)
    assert {check.area for check in CHECKS} == set(AREAS)


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_cannot_be_read_is_a_note_of_its_checks_and_of_no_other(part: str) -> None:
    findings = run_checks(healthy(**{part: Unchecked("the disk is gone")}))
    unchecked = [finding.check for finding in findings if finding.sentence == "not checked: the disk is gone"]
    assert unchecked == [check.id for check in CHECKS if part in check.needs]
    assert all(finding.severity is FindingSeverity.OK for finding in findings if finding.check not in unchecked)


@given(st.sets(st.sampled_from(PARTS)))
def test_whatever_is_missing_every_check_answers(missing: set[str]) -> None:
    findings = run_checks(healthy(**{part: Unchecked("away") for part in missing}))
    assert {finding.check for finding in findings} == {check.id for check in CHECKS}


def test_checks_are_chosen_by_id_and_area_in_any_spelling() -> None:
    assert [check.id for check in select_checks([" d2 ", "HOSTS", ""])] == ["D2", "D27"]
    assert len(select_checks()) == len(select_checks([""])) == len(CHECKS)
    with pytest.raises(ValueError, match="'d15' is no check: use D1 to D30, or one of store"):
        select_checks(["D15"])


def test_only_the_parts_that_chosen_checks_look_at_are_needed() -> None:
    assert needed_parts(select_checks(["D27"])) == {"hosts", "now"}
    assert needed_parts(select_checks(["D3"])) == {"files", "masters", "nodes"}
    assert not any(need.endswith(OPTIONAL) for need in needed_parts(CHECKS))


def test_the_documentation_has_a_row_for_every_check() -> None:
    text = (ROOT / "docs" / "doctor.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| D")]
    assert [row[:3] for row in rows] == [[check.id, check.area, check.reports_when] for check in CHECKS]
    assert all(len(row) == 4 and row[3] for row in rows)
