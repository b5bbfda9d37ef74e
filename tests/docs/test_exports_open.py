"""What a crawl over nodes found, exported by the command line, opens with what people read such files with."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import duckdb
import pandas
import pyarrow.parquet as pq
import pytest

from crawlfleet.client import Client
from tests.docs.conftest import PATIENCE_S, Installation

pytestmark = [pytest.mark.integration, pytest.mark.slow]
EXTRACT = {
    "products": {
        "container": "div.product",
        "fields": {
            "title": "h2.title",
            "price": {"selector": "span.price", "type": "number"},
            "link": {"selector": "a", "attribute": "href"},
            "missing": "span.not-there",
        },
    }
}


@pytest.fixture(scope="module")
def files(installation: Installation, shop: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One crawl, in every format."""
    folder = tmp_path_factory.mktemp("exports")
    with Client(installation.url, installation.token) as client:
        asked = {"depth": 20, "max_pages": 1_000, "extract": EXTRACT}
        group = client.crawl([f"{shop}/products"], asked, members=2)
        assert client.wait_group(group.id, PATIENCE_S).is_complete
    made = {}
    for format in ("jsonl", "csv", "parquet"):
        made[format] = folder / f"items.{format}"
        command = ("-m", "crawlfleet.cli", "group", "export", group.id, "--output", str(made[format]))
        installation.run(sys.executable, *command, "--format", format)
    return made


@pytest.fixture(scope="module")
def items(files: dict[str, Path]) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in files["jsonl"].read_text(encoding="utf-8").splitlines()]
    assert len({item["link"] for item in found}) == 60
    assert all(item["price"] is not None and item["missing"] is None for item in found)
    return found


def test_csv_opens_with_pandas(files: dict[str, Path], items: list[dict[str, Any]]) -> None:
    frame = pandas.read_csv(files["csv"])
    assert set(frame.columns) == set(items[0])
    assert frame["title"].tolist() == [item["title"] for item in items]
    assert frame["price"].tolist() == pytest.approx([float(item["price"]) for item in items])
    assert frame["missing"].isna().all()


def test_parquet_opens_with_pyarrow_pandas_and_duckdb(files: dict[str, Path], items: list[dict[str, Any]]) -> None:
    rows = pq.read_table(files["parquet"]).to_pylist()
    assert [row["title"] for row in rows] == [item["title"] for item in items]
    assert pandas.read_parquet(files["parquet"])["_url"].tolist() == [item["_url"] for item in items]
    total, links, dearest = duckdb.execute(
        f"select count(*), count(distinct link), max(price) from '{files['parquet']}'"
    ).fetchall()[0]
    assert (total, links) == (len(items), 60)
    assert float(dearest) == pytest.approx(max(float(item["price"]) for item in items))


def test_jsonl_opens_with_duckdb(files: dict[str, Path], items: list[dict[str, Any]]) -> None:
    (counted,) = duckdb.execute(f"select count(*) from read_json('{files['jsonl']}')").fetchall()
    assert counted == (len(items),)
