"""The command bench, as it is typed."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from crawlfleet.bootstrap.maintenance import benchmark
from crawlfleet.cli.app import app


def test_a_wrong_store_or_span_is_refused() -> None:
    result = CliRunner().invoke(app, ["bench", "--store", "sqlite:///x"])
    assert (result.exit_code, "--store: postgresql://" in result.stderr) == (2, True)
    assert CliRunner().invoke(app, ["bench", "--seconds", "0"]).exit_code == 2


def test_ratios_are_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("RAW_S", 0.02), ("SUBMITTED", 10), ("SUBMIT_BATCH", 10), ("SINGLES", 1), ("NODES", 1)):
        monkeypatch.setattr(benchmark, name, value)
    result = CliRunner().invoke(app, ["bench", "--seconds", "1", "--json"])
    answer = json.loads(result.stdout)
    assert (answer["store"], len(answer["figures"])) == ("sqlite", 3)
    assert all(figure["ratio"] == figure["value"] / figure["raw"] for figure in answer["figures"])
