"""Ratchets: figures of the source that may fall and never rise.

    python -m scripts.ratchets            # print the present figures beside their limits
    python -m scripts.ratchets --lower    # write figures that have fallen to tests/rules/, as the new limits

`tests/rules/test_plain_words.py` fails when a figure is above its limit, and also when it is below, until the limit is
lowered. A limit with a goal is not lowered further than that.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from scripts.word_figures import (
    PERSONS,
    count_empty_names,
    count_format_skips,
    count_phrases,
    count_synonyms,
    crowded_folders,
    function_names,
    load_sources,
    long_files,
    one_word_function_percent,
    read_glossary,
    repeated_class_names,
    untested_modules,
)

ROOT = Path(__file__).resolve().parents[1]
LIMITS = Path("tests/rules/ratchets.toml")
UNTESTED = Path("tests/rules/untested_modules.txt")
GLOSSARY = Path("docs/glossary.md")
GOALS = {
    "one_word_function_percent": 25,
    "functions_ending_in_of": 0,
    "repeated_class_names": 30,
    "indefinite_persons": 19,
    "format_skips": 0,
}
_MEANINGS = {
    "totals": "What each is, and its goal: scripts/word_figures.py and GOALS in scripts/ratchets.py.",
    "synonyms": "Words that the glossary replaces, in identifiers and docstrings.",
    "empty_names": "Names that name nothing, as whole identifiers.",
    "phrases": "Phrases that sentences do without.",
    "crowded_folders": "Folders with more than 25 modules.",
    "long_files": "Files of more than 400 lines, in steps of 50.",
}
_HEADER = """\
# Figures of the source that may only fall. Lower them with `make ratchets`; never raise one.
# When two branches changed this file, take either side and run `make ratchets`.
"""


@dataclass(frozen=True, slots=True)
class Figures:
    totals: Mapping[str, int]
    synonyms: Mapping[str, int]
    empty_names: Mapping[str, int]
    phrases: Mapping[str, int]
    crowded_folders: Mapping[str, int]
    long_files: Mapping[str, int]
    untested_modules: tuple[str, ...] = ()

    def tables(self) -> dict[str, Mapping[str, int]]:
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "untested_modules"}


def measure_figures(root: Path) -> Figures:
    files = load_sources(root)
    glossary = read_glossary((root / GLOSSARY).read_text(encoding="utf-8"))
    totals = {
        "one_word_function_percent": one_word_function_percent(files),
        "functions_ending_in_of": sum(name.endswith("_of") for name in function_names(files)),
        "repeated_class_names": len(repeated_class_names(files)),
        "indefinite_persons": sum(count_phrases(files, PERSONS).values()),
        "format_skips": count_format_skips(root),
    }
    return Figures(
        totals,
        count_synonyms(files, glossary.synonyms),
        count_empty_names(files, glossary.empty_names),
        count_phrases(files, [phrase for phrase in glossary.phrases if phrase not in PERSONS]),
        crowded_folders(files),
        long_files(files),
        tuple(untested_modules(root, files)),
    )


def load_limits(root: Path) -> Figures:
    tables = tomllib.loads((root / LIMITS).read_text(encoding="utf-8"))
    untested = (root / UNTESTED).read_text(encoding="utf-8").split()
    return Figures(**{name: tables.get(name, {}) for name in _MEANINGS}, untested_modules=tuple(untested))


def find_risen(limits: Figures, figures: Figures) -> list[str]:
    """A sentence for each figure that is above its limit. What has no limit may not be there at all."""
    risen = [
        f"{table}: {name!r} is {count}, and may be {limits.tables()[table].get(name, 0)}"
        for table, counts in figures.tables().items()
        for name, count in counts.items()
        if count > limits.tables()[table].get(name, 0)
    ]
    untested = sorted(set(figures.untested_modules) - set(limits.untested_modules))
    return risen + [f"{module} has no test file of its name under the mirrored path of tests/" for module in untested]


def find_fallen(limits: Figures, figures: Figures) -> list[str]:
    """A sentence for each limit that can be lowered."""
    lowered = lower_limits(limits, figures)
    fallen = [
        f"{table}: {name!r} may be {limit}, and is {figures.tables()[table].get(name, 0)}"
        for table, counts in limits.tables().items()
        for name, limit in counts.items()
        if lowered.tables()[table].get(name, 0) < limit
    ]
    tested = sorted(set(limits.untested_modules) - set(figures.untested_modules))
    return fallen + [f"{module} is listed as untested, and has a test now or is gone" for module in tested]


def lower_limits(limits: Figures, figures: Figures) -> Figures:
    """Lowers every limit whose figure has fallen and raises none. What was renamed stays listed under its new name."""
    return Figures(
        totals={
            name: min(limit, max(figures.totals.get(name, 0), GOALS.get(name, 0)))
            for name, limit in limits.totals.items()
        },
        synonyms=_lower_counts(limits.synonyms, figures.synonyms),
        empty_names=_lower_counts(limits.empty_names, figures.empty_names),
        phrases=_lower_counts(limits.phrases, figures.phrases),
        crowded_folders=_lower_paths(limits.crowded_folders, figures.crowded_folders),
        long_files=_lower_paths(limits.long_files, figures.long_files),
        untested_modules=_lower_list(limits.untested_modules, figures.untested_modules),
    )


def write_limits(root: Path, limits: Figures) -> None:
    parts = [_HEADER]
    for table, counts in limits.tables().items():
        lines = [f'"{name}" = {count}\n' for name, count in counts.items()]
        parts.append(f"\n# {_MEANINGS[table]}\n[{table}]\n{''.join(lines)}")
    (root / LIMITS).write_text("".join(parts), encoding="utf-8")
    (root / UNTESTED).write_text("".join(f"{module}\n" for module in limits.untested_modules), encoding="utf-8")


def _lower_counts(limits: Mapping[str, int], figures: Mapping[str, int]) -> dict[str, int]:
    return {name: min(limit, figures[name]) for name, limit in limits.items() if name in figures}


def _lower_paths(limits: Mapping[str, int], figures: Mapping[str, int]) -> dict[str, int]:
    """Also takes in new paths, which are renamed ones, unless there are more paths than before."""
    if len(figures) > len(limits):
        return _lower_counts(limits, figures)
    return {path: min(size, limits.get(path, size)) for path, size in figures.items()}


def _lower_list(limits: tuple[str, ...], figures: tuple[str, ...]) -> tuple[str, ...]:
    if len(figures) > len(limits):
        return tuple(module for module in limits if module in figures)
    return figures


def _print_figures(limits: Figures, figures: Figures) -> None:
    for table, counts in figures.tables().items():
        print(f"{table}: {_MEANINGS[table]}")
        for name, count in counts.items():
            goal = f", goal {GOALS[name]}" if name in GOALS else ""
            print(f"  {name:48} {count:5}   at most {limits.tables()[table].get(name, 0)}{goal}")
    print(f"untested modules: {len(figures.untested_modules)}, at most {len(limits.untested_modules)}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Figures of the source that may only fall.")
    parser.add_argument("--lower", action="store_true", help="write the figures that have fallen as the new limits")
    arguments = parser.parse_args()
    figures = measure_figures(ROOT)
    limits = load_limits(ROOT) if (ROOT / LIMITS).exists() else figures
    _print_figures(limits, figures)
    if arguments.lower:
        limits = lower_limits(limits, figures)
        write_limits(ROOT, limits)
    risen = find_risen(limits, figures)
    print("\n".join(["", "above their limits:", *risen] if risen else ["", "no figure is above its limit"]))
    return 1 if risen else 0


if __name__ == "__main__":
    sys.exit(main())
