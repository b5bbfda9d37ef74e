"""What both databases write alike."""

from __future__ import annotations

from crawlfleet.store import schema
from crawlfleet.store.engine.transaction import replace_clause


def test_a_row_that_exists_gets_the_other_columns() -> None:
    columns = [column.name for column in schema.figure.columns]
    assert replace_clause(schema.figure, columns) == (
        " ON CONFLICT (series, span_s, at) DO UPDATE SET body = excluded.body"
    )
