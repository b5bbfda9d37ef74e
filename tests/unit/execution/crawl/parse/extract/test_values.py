"""Prices, numbers and dates in the notations of the world."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.execution.crawl.parse.extract.dates import Ambiguous, parse_date
from crawlfleet.execution.crawl.parse.extract.numbers import parse_integer, parse_number
from crawlfleet.execution.crawl.parse.extract.prices import parse_price
from crawlfleet.execution.crawl.parse.extract.values import absolute_url, parse_boolean


@pytest.mark.parametrize(
    ("text", "amount", "currency"),
    [
        ("$19.99", "19.99", "$"),
        ("1,234.56", "1234.56", None),
        ("1.234,56 €", "1234.56", "EUR"),
        ("1 234,56 €", "1234.56", "EUR"),
        ("12\u00a0345,60\u202fzł", "12345.60", "PLN"),
        ("¥1,234", "1234", "¥"),
        ("￥１，２３４", "1234", "¥"),
        ("1,280円", "1280", "JPY"),
        ("1.2万元", "12000", "CNY"),
        ("Rs. 1,299", "1299", "Rs"),
        ("₹12,34,567.00", "1234567.00", "INR"),
        ("CHF 1'234.50", "1234.50", "CHF"),
        ("US$ 12.50", "12.50", "USD"),
        ("12.50USD", "12.50", "USD"),
        ("R$ 19,90", "19.90", "BRL"),
        ("9€99", "9.99", "EUR"),
        ("9,- kr", "9", "kr"),
        ("1.299,- €", "1299", "EUR"),
        ("1.234 €", "1234", "EUR"),
        ("KWD 1.250", "1.250", "KWD"),
        ("€ .99", "0.99", "EUR"),
        ("0,99€", "0.99", "EUR"),
        ("2 for $5", "5", "$"),
        ("-10% 5.00 €", "5.00", "EUR"),
        ("19.99 €/kg", "19.99", "EUR"),
        ("Was $20.00 Now $15.00", "20.00", "$"),
        ("-$5.00", "-5.00", "$"),
        ("007", "7", None),
    ],
)
def test_prices(text: str, amount: str, currency: str | None) -> None:
    assert parse_price(text) == {"amount": amount, "currency": currency}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from 9.99", {"amount": "9.99", "currency": None, "is_from": True}),
        ("ab 5,99 EUR", {"amount": "5.99", "currency": "EUR", "is_from": True}),
        ("¥99起", {"amount": "99", "currency": "¥", "is_from": True}),
        ("$10 - $20", {"amount": "10", "currency": "$", "amount_max": "20"}),
        ("10–20 €", {"amount": "10", "currency": "EUR", "amount_max": "20"}),
        ("$1,299.00 to $1,499.00", {"amount": "1299.00", "currency": "$", "amount_max": "1499.00"}),
    ],
)
def test_ranges_and_lower_bounds(text: str, expected: dict[str, Any]) -> None:
    assert parse_price(text) == expected


@pytest.mark.parametrize("text", ["", "free", "call us", "€", "1,23,4", "1.2.3,4,5"])
def test_what_is_no_price(text: str) -> None:
    assert parse_price(text) is None


def test_what_the_page_means_can_be_said() -> None:
    assert parse_price("$5", currency="CAD") == {"amount": "5", "currency": "CAD"}
    assert parse_price("5", currency="CAD") == {"amount": "5", "currency": "CAD"}
    assert parse_price("5 €", currency="CAD") == {"amount": "5", "currency": "EUR"}
    assert parse_price("1.234", decimal=".") == {"amount": "1.234", "currency": None}
    assert parse_price("1,234", decimal=",") == {"amount": "1.234", "currency": None}


AMOUNTS = st.decimals(min_value=0, max_value=Decimal("9999999.99"), places=2)
SIGNS = st.sampled_from([("€", "EUR"), ("£", "GBP"), ("USD", "USD"), ("zł", "PLN"), ("$", "$"), ("円", "JPY")])
MARKS = st.sampled_from([(",", "."), (".", ","), (" ", ","), ("\u00a0", ","), ("'", "."), ("\u202f", ","), ("", ".")])


@given(AMOUNTS, SIGNS, MARKS, st.booleans(), st.sampled_from(["", " ", "\u00a0"]))
def test_a_price_written_in_any_way_is_read_as_it_was(
    amount: Decimal, sign: tuple[str, str], marks: tuple[str, str], is_first: bool, between: str
) -> None:
    written = f"{amount:,.2f}".replace(",", "G").replace(".", marks[1]).replace("G", marks[0])
    text = f"{sign[0]}{between}{written}" if is_first else f"{written}{between}{sign[0]}"
    assert parse_price(text) == {"amount": f"{amount:.2f}", "currency": sign[1]}


@given(st.text(max_size=100))
def test_any_text_is_a_price_with_an_exact_amount_or_none(text: str) -> None:
    price = parse_price(text)
    if price is not None:
        assert Decimal(price["amount"]).is_finite()


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1,234", 1234),
        ("1.234", 1.234),
        ("12 items", 12),
        ("-5", -5),
        ("(1,024 reviews)", 1024),
        ("1.234.567,8", 1234567.8),
        ("٣٤٫٥", 34.5),
        ("3亿", 300_000_000),
        ("4.5/5", None),
        ("3 - 4", None),
        ("none", None),
        ("9" * 60, None),
    ],
)
def test_numbers(text: str, number: float | None) -> None:
    assert parse_number(text) == number


@given(st.integers(-(10**12), 10**12), st.sampled_from(["", ",", ".", " ", "'"]))
def test_integers_written_in_groups_come_back(number: int, group: str) -> None:
    text = f"{number:,}".replace(",", group)
    # One dot alone is read as that of a decimal number: there the page's mark must be said.
    assert parse_integer(text, decimal="," if group == "." else None) == number


def test_an_integer_has_no_part() -> None:
    assert parse_integer("4.0") == 4
    assert parse_integer("4.5") is None


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("2024-05-03", "2024-05-03"),
        ("20240503", "2024-05-03"),
        ("2024-05-03T10:11:12Z", "2024-05-03T10:11:12+00:00"),
        ("2024-05-03T10:11:12.345+0200", "2024-05-03T10:11:12+02:00"),
        ("2024-05-03 10:11", "2024-05-03T10:11:00"),
        ("Fri, 03 May 2024 10:00:00 GMT", "2024-05-03T10:00:00+00:00"),
        ("3 May 2024", "2024-05-03"),
        ("3-May-2024", "2024-05-03"),
        ("May 3rd, 2024, 2:30 PM", "2024-05-03T14:30:00"),
        ("Friday, May 3, 2024", "2024-05-03"),
        ("3. Mai 2024", "2024-05-03"),
        ("Montag, 3. Juni 2024 um 10:30 Uhr", "2024-06-03T10:30:00"),
        ("1er janvier 2024", "2024-01-01"),
        ("3 de mayo de 2024", "2024-05-03"),
        ("2024年5月3日", "2024-05-03"),
        ("2024年5月3日 10:30", "2024-05-03T10:30:00"),
        ("2024/5/3", "2024-05-03"),
        ("05.03.2024", "2024-03-05"),
        ("13/05/2024", "2024-05-13"),
        ("05/13/2024", "2024-05-13"),
        ("5/5/2024", "2024-05-05"),
        ("2024-13-01", None),
        ("31.02.2024", None),
        ("13:30 PM", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_dates(text: str, iso: str | None) -> None:
    got = parse_date(text)
    assert got == iso
    assert not isinstance(got, Ambiguous)


def test_a_date_that_could_be_two_stays_text_unless_the_page_is_known() -> None:
    assert isinstance(parse_date("05/03/2024"), Ambiguous)
    assert parse_date("05/03/2024") == "05/03/2024"
    assert parse_date("05/03/2024", day_first=True) == "2024-03-05"
    assert parse_date("05/03/2024", day_first=False) == "2024-05-03"
    assert isinstance(parse_date("03.05.24"), Ambiguous)
    assert parse_date("03.05.24", day_first=True) == "2024-05-03"


DAYS = st.dates(min_value=date(1900, 1, 1), max_value=date(2999, 12, 31))


@given(DAYS, st.sampled_from(["%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d %B %Y", "%B %d, %Y", "%Y年%m月%d日"]))
def test_a_day_written_in_any_way_is_read_as_it_was(day: date, form: str) -> None:
    assert parse_date(day.strftime(form)) == day.isoformat()


@given(DAYS)
def test_strokes_never_give_a_wrong_day(day: date) -> None:
    got = parse_date(day.strftime("%d/%m/%Y"))
    assert got == day.isoformat() or isinstance(got, Ambiguous)
    assert parse_date(day.strftime("%d/%m/%Y"), day_first=True) == day.isoformat()


@given(
    st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(2099, 1, 1)),  # noqa: DTZ001 - made aware below
    st.integers(-12, 14),
)
def test_instants_keep_their_offset(moment: datetime, hours: int) -> None:
    aware = moment.replace(microsecond=0, tzinfo=timezone(timedelta(hours=hours)) if hours else UTC)
    for text in (aware.isoformat(), format_datetime(aware)):
        got = parse_date(text)
        assert got is not None
        assert datetime.fromisoformat(got) == aware


@given(st.text(max_size=60))
def test_any_text_is_a_date_or_none(text: str) -> None:
    got = parse_date(text)
    if got is not None and not isinstance(got, Ambiguous):
        datetime.fromisoformat(got)


def test_booleans_and_addresses() -> None:
    assert [parse_boolean(word) for word in ("Yes", " true ", "是", "no", "0", "maybe", "")] == [
        True,
        True,
        True,
        False,
        False,
        None,
        None,
    ]
    assert absolute_url("../x?y#z", "http://a.test/b/c") == "http://a.test/x?y#z"
    assert absolute_url("http://[", "http://a.test/") is None
