"""Every kind of rule has its texts in both languages, and no other."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from crawlfleet.model.notice import Language, NoticeState, Severity
from crawlfleet.notices.text_catalogue import CHINESE, ENGLISH, KIND_TEXTS, PHRASES, Wording
from crawlfleet.scheduling.alerts.rule_kinds import RULE_KINDS

CHINESE_CHARACTER = re.compile(r"[\u4e00-\u9fff]")


def test_each_kind_of_rule_has_texts() -> None:
    assert set(KIND_TEXTS) == set(RULE_KINDS)


@pytest.mark.parametrize("kind", KIND_TEXTS)
def test_the_texts_of_a_kind_fit_its_unit_and_language(kind: str) -> None:
    texts = KIND_TEXTS[kind]
    for language in Language:
        wording = texts.wording(language)
        for part in (wording.firing, wording.recovered, wording.sentence):
            assert bool(CHINESE_CHARACTER.search(part)) is (language is Language.CHINESE)
        used = set(re.findall(r"\{(\w+)\}", wording.sentence))
        assert used <= {"value", "threshold"}
        assert bool(used) is not RULE_KINDS[kind].is_state
        assert wording.sentence.endswith("。" if language is Language.CHINESE else ".")
        assert not wording.firing.endswith((".", "。"))
    english, chinese = (set(re.findall(r"\{(\w+)\}", texts.wording(language).sentence)) for language in Language)
    assert english == chinese


def test_the_phrases_of_both_languages_use_the_same_values() -> None:
    for field in fields(ENGLISH):
        english, chinese = getattr(ENGLISH, field.name), getattr(CHINESE, field.name)
        if isinstance(english, str):
            assert set(re.findall(r"\{(\w+)\}", english)) == set(re.findall(r"\{(\w+)\}", chinese)), field.name
    for phrases in PHRASES.values():
        assert set(phrases.severities) == set(Severity)
        assert set(phrases.states) == set(NoticeState)
        assert isinstance(phrases.generic, Wording)


def test_each_kind_of_scope_has_a_chinese_word() -> None:
    scopes = {scope for kind in RULE_KINDS.values() for scope in kind.scopes} - {"*"}
    assert scopes <= set(CHINESE.scopes)
