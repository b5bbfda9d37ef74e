"""Limits that only fall: what is judged, what is lowered, what is written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from scripts.ratchets import GOALS, LIMITS, Figures, find_fallen, find_risen, load_limits, lower_limits, write_limits


def make_figures(
    totals: Mapping[str, int] | None = None,
    synonyms: Mapping[str, int] | None = None,
    long_files: Mapping[str, int] | None = None,
    untested: tuple[str, ...] = (),
) -> Figures:
    return Figures(totals or {}, synonyms or {}, {}, {}, {}, long_files or {}, untested)


def test_equal_figures_are_neither_risen_nor_fallen() -> None:
    figures = make_figures({"repeated_class_names": 70}, {"job": 3}, {"a.py": 450}, ("b.py",))
    assert find_risen(figures, figures) == []
    assert find_fallen(figures, figures) == []
    assert lower_limits(figures, figures) == figures


def test_a_figure_above_its_limit_or_without_one_is_named() -> None:
    limits = make_figures({"repeated_class_names": 70}, {"job": 3})
    figures = make_figures({"repeated_class_names": 71}, {"job": 3, "errand": 1}, {"a.py": 450}, ("b.py",))
    assert find_risen(limits, figures) == [
        "totals: 'repeated_class_names' is 71, and may be 70",
        "synonyms: 'errand' is 1, and may be 0",
        "long_files: 'a.py' is 450, and may be 0",
        "b.py has no test file of its name under the mirrored path of tests/",
    ]
    assert lower_limits(limits, figures) == limits


def test_a_figure_below_its_limit_is_lowered() -> None:
    limits = make_figures({"repeated_class_names": 70}, {"job": 3, "errand": 1}, {"a.py": 500}, ("b.py", "c.py"))
    figures = make_figures({"repeated_class_names": 60}, {"job": 2}, {"a.py": 450}, ("c.py",))
    assert find_fallen(limits, figures) == [
        "totals: 'repeated_class_names' may be 70, and is 60",
        "synonyms: 'job' may be 3, and is 2",
        "synonyms: 'errand' may be 1, and is 0",
        "long_files: 'a.py' may be 500, and is 450",
        "b.py is listed as untested, and has a test now or is gone",
    ]
    assert lower_limits(limits, figures) == figures


def test_a_limit_stays_at_its_goal() -> None:
    limits = make_figures({"repeated_class_names": 50})
    figures = make_figures({"repeated_class_names": 10})
    lowered = lower_limits(limits, figures)
    assert lowered.totals == {"repeated_class_names": GOALS["repeated_class_names"]}
    assert find_fallen(lowered, figures) == []


def test_what_was_renamed_stays_listed_and_what_is_new_does_not_come_in() -> None:
    limits = make_figures(long_files={"a.py": 500}, untested=("b.py", "c.py"))
    renamed = make_figures(long_files={"new.py": 500}, untested=("c.py", "new.py"))
    assert lower_limits(limits, renamed) == renamed
    more = make_figures(long_files={"a.py": 500, "new.py": 450}, untested=("b.py", "c.py", "new.py"))
    assert lower_limits(limits, more) == limits


def test_written_limits_are_read_back(tmp_path: Path) -> None:
    (tmp_path / LIMITS).parent.mkdir(parents=True)
    limits = make_figures({"repeated_class_names": 70}, {"job": 3}, {"src/a.py": 450}, ("b.py", "c.py"))
    write_limits(tmp_path, limits)
    assert load_limits(tmp_path) == limits
