"""Dates of pages are converted to ISO 8601; a date that could be two days keeps its text, marked as `Ambiguous`."""

from __future__ import annotations

import re
from datetime import date, datetime
from email.utils import parsedate_to_datetime

from crawlfleet.execution.crawl.parse.extract.numbers import to_ascii

_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan januar jänner janvier janv enero ene gennaio gen janeiro januari",
            "february feb februar février févr fevrier febrero febbraio fevereiro fev februari",
            "march mar märz mär maerz mars marzo março marco maart mrt",
            "april apr avril avr abril abr aprile",
            "may mai mayo maggio mag maio mei maj",
            "june jun juni juin junio giugno giu junho",
            "july jul juli juillet juil julio luglio lug julho",
            "august aug août aout agosto ago augustus augusti",
            "september sep sept septembre septiembre settembre set setembro",
            "october oct oktober okt octobre octubre ottobre ott outubro out",
            "november nov novembre noviembre novembro",
            "december dec dezember dez décembre déc decembre diciembre dic dicembre dezembro",
        ),
        1,
    )
    for name in names.split()
}
_TIME = (
    r"(?:[T,\s]\s*(?:at |um |à )?(\d{1,2}):(\d\d)(?::(\d\d)(?:[.,]\d+)?)?"
    r"\s*([ap]\.?m\.?)?\s*(?:Uhr)?\s*(Z|UTC|GMT|[+-]\d\d:?\d\d)?)?"
)
_YEAR_FIRST = re.compile(rf"(\d{{4}})([-/.])(\d{{1,2}})\2(\d{{1,2}}){_TIME}", re.IGNORECASE)
_COMPACT = re.compile(r"(\d{4})(\d\d)(\d\d)")
_CHINESE = re.compile(
    rf"(\d{{4}})\s*[年년]\s*(\d{{1,2}})\s*[月월]\s*(\d{{1,2}})\s*[日号號일]?\s*{_TIME}", re.IGNORECASE
)
_YEAR_LAST = re.compile(rf"(\d{{1,2}})([-/.])\s?(\d{{1,2}})\2\s?(\d{{4}}|\d\d){_TIME}", re.IGNORECASE)
_DAY_MONTH = re.compile(
    rf"(\d{{1,2}})(?:st|nd|rd|th|er|º|\.)?[\s-]+(?:of |de )?([^\W\d_]{{3,10}})\.?,?[\s-]+(?:de )?(\d{{4}}){_TIME}",
    re.IGNORECASE,
)
_MONTH_DAY = re.compile(rf"([^\W\d_]{{3,10}})\.?\s+(\d{{1,2}})(?:st|nd|rd|th)?,?\s+(\d{{4}}){_TIME}", re.IGNORECASE)
_WEEKDAY = re.compile(r"^[^\W\d_]{2,10}\.?,\s*")
_RFC = re.compile(r"(?:[A-Za-z]{3},?\s)?\d{1,2}[ -][A-Za-z]{3}[ -]\d{2,4} \d\d:\d\d")


class Ambiguous(str):
    """The text of a date whose day and month cannot be distinguished."""


def parse_date(text: str, *, day_first: bool | None = None) -> str | None:
    """Return a date in ISO 8601: a day, or an instant where the text has a time (with the offset that it names)."""
    text = " ".join(to_ascii(text).split()).strip(" .,")
    if not any(char.isdigit() for char in text):
        return None
    if _RFC.match(text):
        try:
            return parsedate_to_datetime(text).isoformat()
        except ValueError:
            return None
    if match := _YEAR_FIRST.fullmatch(text):
        return _iso_date(match[1], match[3], match[4], match.groups()[4:])
    if match := _COMPACT.fullmatch(text):
        return _iso_date(match[1], match[2], match[3], ())
    if match := _CHINESE.fullmatch(text):
        return _iso_date(match[1], match[2], match[3], match.groups()[3:])
    if match := _YEAR_LAST.fullmatch(text):
        return _parse_year_last(text, match, day_first)
    return _parse_named_month(_WEEKDAY.sub("", text, count=1))


def _parse_named_month(text: str) -> str | None:
    if match := _DAY_MONTH.fullmatch(text):
        day, month, year = match[1], match[2], match[3]
    elif match := _MONTH_DAY.fullmatch(text):
        month, day, year = match[1], match[2], match[3]
    else:
        return None
    number = _MONTHS.get(month.lower())
    return _iso_date(year, str(number), day, match.groups()[3:]) if number else None


def _parse_year_last(text: str, match: re.Match[str], day_first: bool | None) -> str | None:
    first, mark, second, year = match[1], match[2], match[3], match[4]
    time = match.groups()[4:]
    if len(year) == 2:
        # 03.05.24 has three readings; the field's option decides, and then this century is meant.
        if day_first is None:
            return Ambiguous(text)
        year = f"20{year}"
    # With dots the day comes first everywhere; with slashes half of the world does the one, half the other.
    if day_first is None and mark == ".":
        day_first = True
    if day_first is None:
        if int(first) <= 12 and int(second) <= 12 and int(first) != int(second):
            return Ambiguous(text)
        day_first = int(first) > 12 or int(first) == int(second)
    day, month = (first, second) if day_first else (second, first)
    return _iso_date(year, month, day, time)


def _iso_date(year: str, month: str, day: str, time: tuple[str | None, ...]) -> str | None:
    try:
        if not any(time):
            return date(int(year), int(month), int(day)).isoformat()
        hour, minute, second, half, zone = time
        hours = int(hour or 0)
        if half:
            if not 1 <= hours <= 12:
                return None
            hours = hours % 12 + (12 if half.lower().startswith("p") else 0)
        moment = datetime(int(year), int(month), int(day), hours, int(minute or 0), int(second or 0)).isoformat()  # noqa: DTZ001 - the page's own
    except ValueError:
        return None
    if not zone:
        return moment
    if zone[0] not in "+-":
        return f"{moment}+00:00"
    return moment + (zone if ":" in zone else f"{zone[:3]}:{zone[3:]}")
