"""Checks of masters: each says its sentence when its cause is there."""

import pytest

from crawlfleet.model.installation.master import LoopFigures
from crawlfleet.scheduling.doctor.findings import FindingSeverity
from crawlfleet.scheduling.doctor.snapshot import FilePart, MasterPart, Unchecked
from tests.unit.scheduling.doctor.doctor_kit import DAY_MS, NOW, master, masters, only_problem, problems


def test_a_broker_that_is_away_lost_full_or_forgetful_is_told() -> None:
    assert "Redis is away" in only_problem("D8", **masters(master(broker_trouble="Redis is away since noon"))).sentence
    finding = only_problem("D8", **masters(master(broker_losses=2), master("m2", 2, broker_resets=1)))
    assert finding.sentence == "Redis was lost 2 times and emptied 1 time today"
    assert only_problem("D8", **masters(master(broker_memory_ratio=0.95))).sentence == "Redis uses 95% of its maxmemory"
    finding = only_problem("D8", **masters(master(broker_eviction="allkeys-lru")))
    assert (finding.severity, "allkeys-lru" in finding.sentence) == (FindingSeverity.NOTE, True)
    assert problems("D8", **masters(master(broker_losses=1, broker_resets=1))) == []


def test_no_leader_is_an_error() -> None:
    for leader in ("", "gone#7"):
        finding = only_problem("D9", **masters(master(), leader=leader))
        assert finding.severity is FindingSeverity.ERROR
        assert finding.sentence == "no master leads: nothing is placed (1 master alive)"


def test_a_leader_that_changes_often_and_a_silent_master_are_told() -> None:
    assert "changed 4 times" in only_problem("D9", **masters(master(leader_changes=4))).sentence
    assert problems("D9", **masters(master(leader_changes=3))) == []
    finding = only_problem("D9", **masters(master(), master("m2", 2, silent_ms=120_000)))
    assert finding.sentence == "1 master (m2) fell silent 2 minutes ago without stopping"


def test_an_installation_that_is_stopped_is_a_note() -> None:
    finding = only_problem("D9", masters=MasterPart([], ""), running=Unchecked("no master runs"))
    assert finding.severity is FindingSeverity.NOTE
    assert finding.sentence.startswith("no master runs")


def test_masters_that_all_fell_silent_are_a_warning() -> None:
    silent = MasterPart([master(silent_ms=180_000)], "m1#1")
    finding = only_problem("D9", masters=silent, running=Unchecked("no master runs"))
    assert finding.severity is FindingSeverity.WARNING
    assert finding.sentence == "no master runs: 1 master (m1) fell silent 3 minutes ago without stopping"


def test_a_loop_that_does_not_pass_is_told() -> None:
    loops = {"relay": LoopFigures(90.0, 89.0), "pruner": LoopFigures(119.0, 59.0)}
    finding = only_problem("D10", **masters(master(loops=loops)))
    assert finding.sentence == "loop relay of master m1 has not passed for 1 minute"


def test_an_event_loop_that_lags_is_told() -> None:
    assert "lags by 101 ms" in only_problem("D12", **masters(master(loop_lag_p99_ms=101.0))).sentence
    assert problems("D12", **masters(master(loop_lag_p99_ms=100.0))) == []
    assert problems("D12", **masters(master(loop_lag_p99_ms=None))) == []


@pytest.mark.parametrize(("offset_ms", "words"), [(3_000, "3 s ahead of"), (-61_000, "61 s behind")])
def test_a_clock_that_differs_is_told(offset_ms: int, words: str) -> None:
    assert f"{words} the database's" in only_problem("D13", **masters(master(clock_offset_ms=offset_ms))).sentence
    assert problems("D13", **masters(master(clock_offset_ms=None))) == []


@pytest.mark.parametrize(
    ("host", "severity"),
    [
        ("0.0.0.0", FindingSeverity.WARNING),
        ("::", FindingSeverity.WARNING),
        ("8.8.8.8", FindingSeverity.WARNING),
        ("fleet.example", FindingSeverity.WARNING),
        ("10.0.0.1", FindingSeverity.NOTE),
        ("127.0.0.1", None),
        ("::1", None),
        ("localhost", None),
    ],
)
def test_plain_http_is_told_by_who_can_hear_it(host: str, severity: FindingSeverity | None) -> None:
    found = problems("D14", files=FilePart(listens_on=host))
    assert [finding.severity for finding in found] == ([] if severity is None else [severity])
    assert problems("D14", files=FilePart(listens_on=host, has_tls=True)) == []


def test_plain_http_behind_a_proxy_with_tls_is_a_note() -> None:
    finding = only_problem("D14", files=FilePart(listens_on="0.0.0.0", is_behind_tls=True))
    assert finding.severity is FindingSeverity.NOTE


@pytest.mark.parametrize(
    ("left_ms", "severity", "words"),
    [
        (-1, FindingSeverity.ERROR, "has ended"),
        (2 * DAY_MS, FindingSeverity.ERROR, "ends in 2 days"),
        (20 * DAY_MS, FindingSeverity.WARNING, "ends in 20 days"),
    ],
)
def test_a_certificate_that_ends_is_told(left_ms: int, severity: FindingSeverity, words: str) -> None:
    files = FilePart(has_tls=True, certificate="/c.pem", certificate_ends_at=NOW + left_ms)
    finding = only_problem("D14", files=files)
    assert (finding.severity, words in finding.sentence) == (severity, True)
    assert problems("D14", files=FilePart(has_tls=True, certificate_ends_at=NOW + 22 * DAY_MS)) == []


def test_a_certificate_that_cannot_be_read_is_an_error() -> None:
    finding = only_problem("D14", files=FilePart(has_tls=True, certificate="/c.pem", certificate_trouble="no file"))
    assert finding.sentence == "the certificate /c.pem cannot be read: no file"
