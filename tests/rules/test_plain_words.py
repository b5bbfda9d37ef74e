"""The words of the source stay plain: the glossary's words, names that say what they name, small files and folders.

What is not yet so is counted in `ratchets.toml` and listed in `untested_modules.txt`, and may only become less.
"""

from __future__ import annotations

import re

import pytest

from scripts.ratchets import GLOSSARY, Figures, find_fallen, find_risen, load_limits, measure_figures
from scripts.word_figures import misplaced_tests, read_glossary
from tests.paths import ROOT

_ROW = re.compile(r"^\| ([^|`]+) \| ([^|]+) \| [^|]+ \|$", re.MULTILINE)


@pytest.fixture(scope="module")
def figures() -> Figures:
    return measure_figures(ROOT)


def test_no_figure_is_above_its_limit(figures: Figures) -> None:
    risen = find_risen(load_limits(ROOT), figures)
    assert not risen, "see docs/glossary.md for better words, and `make ratchets` for all figures:\n" + "\n".join(risen)


def test_no_limit_is_above_its_figure(figures: Figures) -> None:
    fallen = find_fallen(load_limits(ROOT), figures)
    assert not fallen, "better than before: run `make ratchets`, which lowers the limits:\n" + "\n".join(fallen)


def test_each_test_stands_in_a_folder_of_the_source() -> None:
    assert misplaced_tests(ROOT) == []


def test_the_glossary_has_each_word_once_with_one_sentence() -> None:
    page = (ROOT / GLOSSARY).read_text(encoding="utf-8")
    glossary = read_glossary(page)
    assert len(glossary.words) > 50
    assert len(set(glossary.words)) == len(glossary.words)
    meanings = {word: meaning for word, meaning in _ROW.findall(page) if word in glossary.words}
    assert set(meanings) == set(glossary.words)
    assert [word for word, meaning in meanings.items() if not re.fullmatch(r"[A-Z].*[^.]\.", meaning)] == []


def test_the_glossary_replaces_no_word_of_its_own() -> None:
    glossary = read_glossary((ROOT / GLOSSARY).read_text(encoding="utf-8"))
    assert glossary.synonyms and glossary.empty_names and glossary.phrases
    assert {*glossary.synonyms, *glossary.empty_names} & {word.replace(" ", "_") for word in glossary.words} == set()
