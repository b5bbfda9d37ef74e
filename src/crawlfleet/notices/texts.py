"""The text of a notice in one language, before it is laid out for a service. Pure.

The sentence that says why stays as it was given, in English. Names and sentences come from outside: what could
control the display of a reader (line ends, escape sequences, changes of the writing direction) is removed here.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

from crawlfleet.model.instants import Instant, to_text
from crawlfleet.model.notice import Language, Notice, NoticeItem, NoticeState
from crawlfleet.notices.quantities import format_ordinal, format_quantity, format_span
from crawlfleet.notices.text_catalogue import KIND_TEXTS, PHRASES, KindTexts
from crawlfleet.scheduling.alerts.rule_kinds import RULE_KINDS, Unit

SHOWN_ITEMS = 15
"""Number of alerts that a message lists; it says how many more there are."""
_NAME_CHARS = 200
_WHY_CHARS = 1_000
_INSTALLATION_SCOPE = "*"


@dataclass(frozen=True, slots=True)
class NoticeText:
    """The parts of a message, each a single line of plain text."""

    title: str
    """What is the case, with the severity and the name of the installation."""
    lead: str
    """The sentences that explain the title."""
    facts: tuple[tuple[str, str], ...]
    """Labels and values."""
    items: tuple[str, ...]
    """One line for each alert of a group or digest."""
    link_label: str
    link: str


def write_notice(notice: Notice, language: Language) -> NoticeText:
    """Write a notice in a language."""
    phrases = PHRASES[language]
    return NoticeText(
        title=_write_title(notice, language),
        lead=_write_lead(notice, language),
        facts=_write_facts(notice, language),
        items=_write_items(notice, language),
        link_label=phrases.link,
        link=notice.link if _is_link(notice.link) else "",
    )


def clean_line(text: str, max_chars: int) -> str:
    """Return text from outside as one line, without control characters and cut to a length."""
    shown = "".join(
        " " if unicodedata.category(char).startswith(("C", "Z")) else char for char in text[: 4 * max_chars]
    )
    shown = " ".join(shown.split())
    return shown if len(shown) <= max_chars else shown[: max_chars - 1] + "…"


def describe_scope(scope: str, language: Language) -> str:
    """Name what an alert is about: `node node-7c` for `node:node-7c`; empty for the whole installation."""
    if scope == _INSTALLATION_SCOPE:
        return ""
    kind, colon, name = scope.partition(":")
    if not colon:
        return clean_line(scope, _NAME_CHARS)
    word = PHRASES[language].scopes.get(kind, clean_line(kind, _NAME_CHARS))
    return f"{word} {clean_line(name, _NAME_CHARS)}"


def _write_title(notice: Notice, language: Language) -> str:
    phrases = PHRASES[language]
    headline = _write_headline(notice, language)
    if notice.count > 1 and notice.state is not NoticeState.DIGEST:
        headline = f"{headline} × {notice.count}"
    elif scope := describe_scope(notice.scope, language):
        headline = f"{headline}: {scope}" if language is Language.ENGLISH else f"{headline}：{scope}"
    is_about_state = notice.state in (NoticeState.RECOVERED, NoticeState.TEST)
    tag = phrases.states[notice.state].upper() if is_about_state else phrases.severities[notice.severity]
    installation = clean_line(notice.installation, _NAME_CHARS)
    return f"[{tag}] {headline}" + (f" ({installation})" if installation else "")


def _write_headline(notice: Notice, language: Language) -> str:
    phrases = PHRASES[language]
    match notice.state:
        case NoticeState.TEST:
            return phrases.test_title
        case NoticeState.DIGEST:
            return phrases.digest_title.format(count=notice.count)
        case NoticeState.REMINDER:
            return phrases.still.format(title=_kind_title(notice, NoticeState.FIRING, language))
        case state:
            return _kind_title(notice, state, language)


def _write_lead(notice: Notice, language: Language) -> str:
    phrases = PHRASES[language]
    match notice.state:
        case NoticeState.TEST:
            sentences = [phrases.test]
        case NoticeState.DIGEST:
            sentences = [phrases.digest]
        case NoticeState.RECOVERED:
            span = _duration(notice, language)
            sentences = [phrases.after_span.format(span=span) if span and notice.count == 1 else phrases.recovered]
        case NoticeState.FLAPPING:
            sentences = [phrases.flapping]
        case _:
            sentences = [_kind_sentence(notice, language)]
            span = _duration(notice, language)
            if span and notice.state is NoticeState.REMINDER:
                sentences.append(phrases.for_span.format(span=span))
            if notice.reminder:
                sentences.append(phrases.reminder.format(number=format_ordinal(notice.reminder, language)))
    if notice.count > 1 and notice.state is not NoticeState.DIGEST:
        sentences.append(phrases.alerts.format(count=notice.count))
    return ("" if language is Language.CHINESE else " ").join(sentence for sentence in sentences if sentence)


def _write_facts(notice: Notice, language: Language) -> tuple[tuple[str, str], ...]:
    phrases = PHRASES[language]
    facts: list[tuple[str, str]] = []
    if notice.count == 1:
        unit = _unit(notice.kind or notice.rule)
        if notice.value is not None and unit is not Unit.STATE:
            facts.append((phrases.value, format_quantity(notice.value, unit, language)))
        if notice.threshold is not None and unit is not Unit.STATE:
            facts.append((phrases.threshold, format_quantity(notice.threshold, unit, language)))
    if notice.since is not None and notice.state is not NoticeState.TEST:
        facts.append((phrases.since, _show_instant(notice.since)))
    if notice.why:
        facts.append((phrases.why, clean_line(notice.why, _WHY_CHARS)))
    return tuple(facts)


def _write_items(notice: Notice, language: Language) -> tuple[str, ...]:
    if not notice.items or (notice.count == 1 and len(notice.items) == 1 and notice.why):
        return ()
    lines = [_write_item(item, notice, language) for item in notice.items[:SHOWN_ITEMS]]
    hidden = max(notice.count, len(notice.items)) - len(lines)
    if hidden > 0:
        lines.append(PHRASES[language].more.format(count=hidden))
    return tuple(lines)


def _write_item(item: NoticeItem, notice: Notice, language: Language) -> str:
    """Write one alert of several: what a reader needs to tell it from the others."""
    phrases = PHRASES[language]
    is_of_notice = (item.kind or item.rule) == (notice.kind or notice.rule)
    scope = describe_scope(item.scope, language)
    title = "" if is_of_notice and scope else _kind_title(item, item.state, language)
    subject = " - ".join(part for part in (title, scope) if part)
    line = f"{phrases.states[item.state]}: {subject}"
    unit = _unit(item.kind or item.rule)
    if item.value is not None and unit is not Unit.STATE:
        line += f" ({format_quantity(item.value, unit, language)})"
    if item.why:
        line += f" - {clean_line(item.why, _NAME_CHARS)}"
    return line


def _kind_title(source: Notice | NoticeItem, state: NoticeState, language: Language) -> str:
    texts = _kind_texts(source)
    wording = PHRASES[language].generic if texts is None else texts.wording(language)
    title = wording.recovered if state is NoticeState.RECOVERED else wording.firing
    return title.replace("{rule}", clean_line(source.rule, _NAME_CHARS)) if texts is None else title


def _kind_sentence(notice: Notice, language: Language) -> str:
    texts = _kind_texts(notice)
    sentence = (PHRASES[language].generic if texts is None else texts.wording(language)).sentence
    if "{" not in sentence:
        return sentence
    if notice.value is None or notice.count > 1 or ("{threshold}" in sentence and notice.threshold is None):
        return ""
    unit = _unit(notice.kind or notice.rule)
    return sentence.format(
        value=format_quantity(notice.value, unit, language),
        threshold="" if notice.threshold is None else format_quantity(notice.threshold, unit, language),
    )


def _kind_texts(source: Notice | NoticeItem) -> KindTexts | None:
    return KIND_TEXTS.get(source.kind or source.rule)


def _unit(kind: str) -> Unit:
    return RULE_KINDS[kind].unit if kind in RULE_KINDS else Unit.COUNT


def _duration(notice: Notice, language: Language) -> str:
    if notice.since is None or notice.created_at < notice.since:
        return ""
    return format_span((notice.created_at - notice.since) / 1000, language)


def _show_instant(instant: Instant) -> str:
    """Write an instant for people, to the second."""
    return to_text(instant)[:19].replace("T", " ") + " UTC"


def _is_link(link: str) -> bool:
    """Return whether a link can be laid out: other characters could end it early in a service's markup."""
    return link.startswith(("https://", "http://")) and not any(char in '<>"|()[]`\\' or char <= " " for char in link)
