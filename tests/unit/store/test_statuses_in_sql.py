"""Statuses in SQL come from their enums: a numeral would be missed by whoever changes one."""

import re
from pathlib import Path

from crawlfleet import store

NUMERAL = re.compile(
    r"\b(status|state|recall|health|cause|role)\b *(=|<>|!=|<=?|>=?) *\d"
    r"|\b(status|state|recall|health|cause|role) +(NOT +)?IN *\(\d"
    r"|\bCOALESCE\(\w*\.?(status|state), *\d"
    r"|\b\d+ +AS +(status|state|recall)\b"
)


def sources() -> list[Path]:
    """The store's modules; migrations keep the numbers that were right when they were written."""
    return [path for path in Path(store.__path__[0]).rglob("*.py") if "migrations" not in path.parts]


def test_the_pattern_finds_numerals() -> None:
    for sql in (
        "UPDATE live SET status = 2",
        "l.status < 1",
        "status IN (0, 1)",
        "1 AS status",
        "COALESCE(d.status, 0)",
        "recall = 0",
    ):
        assert NUMERAL.search(sql), sql
    for sql in ("status = {TaskStatus.PENDING:d}", "status = $2", "l.status, d.status", "COALESCE(l.status, d.status)"):
        assert not NUMERAL.search(sql), sql


def test_no_statement_of_the_store_names_a_status_by_its_number() -> None:
    found = [
        f"{path.name}:{number}: {line.strip()}"
        for path in sources()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if NUMERAL.search(line) and not line.lstrip().startswith("#")
    ]
    assert len(sources()) > 50
    assert found == []
