"""What `make test-steady` makes of the reports of its runs."""

from __future__ import annotations

from pathlib import Path

from scripts.steady_runs import Run, failure_table, read_failures

REPORT = """<testsuites><testsuite>
<testcase classname="tests.processes.test_poison" name="test_good"/>
<testcase classname="tests.processes.test_poison" name="test_bad[1]"><failure message="no"/></testcase>
<testcase classname="tests.processes.test_demo" name="test_left"><error message="left running"/></testcase>
<testcase classname="tests.processes.test_demo" name="test_left"><error message="again"/></testcase>
<testcase classname="tests.processes.test_demo" name="test_skipped"><skipped/></testcase>
</testsuite></testsuites>"""


def test_failures_and_errors_are_read_each_once(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    tests, failed = read_failures(report)
    assert tests == 5
    assert failed == ("tests/processes/test_poison::test_bad[1]", "tests/processes/test_demo::test_left")


def test_a_run_without_a_report_is_a_failure(tmp_path: Path) -> None:
    assert read_failures(tmp_path / "missing.xml") == (0, ("(the run itself: there is no report of it)",))


def test_the_table_counts_failures_by_condition() -> None:
    runs = [Run("idle", 9, (), 1), Run("busy", 9, ("a::b",), 1), Run("busy", 9, ("a::b", "a::c"), 1)]
    lines = failure_table(runs, ["idle", "busy"]).splitlines()
    assert [line.split() for line in lines] == [
        ["idle", "(1", "runs)", "busy", "(2", "runs)", "failed"],
        ["-", "2", "a::b"],
        ["-", "1", "a::c"],
    ]
    assert failure_table(runs[:1], ["idle"]).splitlines()[1].split() == ["-", "none", "failed"]
