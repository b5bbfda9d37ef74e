"""Names and messages from elsewhere do not steer the terminal of the person who reads them."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator

import pytest
import structlog
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.cli.output import Output
from crawlfleet.cli.wait.tasks import bar_figures
from crawlfleet.cli.work.export import _escape_stream
from crawlfleet.observe.logs import configure_logs
from crawlfleet.observe.terminal_text import escape_controls, escape_line, json_text
from tests.unit.cli.work.test_export import said
from tests.unit.cli.work.test_product import page, product
from tests.unit.client.test_client import Script

STEERING = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\x08\x7f\u202etxt\u2066"
KEPT = "T-Shirt 衬衫 🙂 [red]{x}"


def _steers(text: str) -> bool:
    return not text.replace("\n", "").replace("\t", "").isprintable()


def test_what_steers_a_terminal_is_written_out() -> None:
    assert escape_controls("a\x1b[31mb\x9bc\u202ed\r") == "a\\x1b[31mb\\x9bc\\u202ed\\x0d"
    assert escape_controls(f"{KEPT}\n\tnext") == f"{KEPT}\n\tnext"
    assert escape_line("a\nb\tc\x1b") == "a\\nb\\tc\\x1b"


@given(st.text(alphabet=st.characters(exclude_categories=["Cn", "Co"])))
def test_no_text_keeps_a_control(text: str) -> None:
    for shown in (escape_controls(text), escape_line(text)):
        assert not any(character in shown for character in STEERING if not character.isprintable())
        shown.encode()
    assert "\n" not in escape_line(text)
    # Two halves of a surrogate pair in a row are one character to every reader of JSON.
    assert json.loads(json_text([text])) == [text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")]


@pytest.mark.parametrize("style", [[], ["--json"]], ids=["table", "json"])
async def test_a_list_of_names_from_elsewhere(style: list[str]) -> None:
    told = await said(page(product(title=f"{KEPT} {STEERING}")), "product", "list", *style)
    assert not _steers(told.stdout)
    if style:
        assert json.loads(told.stdout)["products"][0]["title"] == f"{KEPT} {STEERING}"


async def test_one_thing_and_what_a_master_says_of_an_error() -> None:
    detail = {"product": product(title=f"{STEERING}\nprice  0.00"), "changes": []}
    told = await said(Script(lambda: web.json_response(detail)), "product", "show", "product-0000000000000001")
    assert not _steers(told.stdout)
    assert "price  0.00" not in {line[:11] for line in told.stdout.splitlines()}, (
        "no line of a value looks like a field"
    )
    wrong = {"code": "not_found", "detail": f"no product {STEERING}", "status": 404, "title": "Not found"}
    refused = Script(lambda: web.json_response(wrong, status=404))
    told = await said(refused, "product", "show", "product-0000000000000001", code=3)
    assert "no product" in told.stderr
    assert not _steers(told.stderr)


def test_a_bar_shows_figures_as_they_are_and_obeys_none(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.text import Text

    note = bar_figures({"pages [bold]": f"{STEERING}\n[/bold]"})
    assert not _steers(Text.from_markup(note).plain)
    assert "[bold]" in Text.from_markup(note).plain
    Output(is_json=False).print_text(STEERING)
    assert not _steers(capsys.readouterr().out)


def test_an_export_on_a_terminal_is_readable_in_pieces() -> None:
    data = f'{{"title": "{KEPT} {STEERING}"}}\n'.encode()
    pieces = [data[at : at + 1] for at in range(len(data))]
    shown = b"".join(_escape_stream(iter(pieces))).decode()
    assert KEPT in shown
    assert not _steers(shown)


@pytest.fixture
def _logs_again() -> Iterator[None]:
    yield
    structlog.reset_defaults()
    logging.basicConfig(force=True)


@pytest.mark.usefixtures("_logs_again")
def test_the_log_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    configure_logs("info", "console")
    log = structlog.get_logger()
    log.warning("not_announced", why=STEERING.replace(" ", ""), node="\x1b[5m")
    try:
        raise ValueError(STEERING)
    except ValueError:
        log.exception("failed")
    logging.getLogger("uvicorn.error").warning("strange request: %s", STEERING)
    # The colours of the log itself are its own.
    written = stream.getvalue()
    for own in ("[0m", "[1m", "[2m", "[31m", "[32m", "[33m", "[34m", "[35m", "[36m", "[1;31m"):
        written = written.replace(f"\x1b{own}", "")
    assert "\\x1b]0;owned" in written
    assert not _steers(written)
