"""The flow of the examples: over real processes, with a fan-out and a condition, by the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from crawlfleet.cli.app import app
from crawlfleet.client import ApiError, Client
from tests.docs.conftest import EXAMPLES, PATIENCE_S, Installation

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture
def client(installation: Installation) -> Iterator[Client]:
    with Client(installation.url, installation.token) as caller:
        yield caller


def of_shop(shop: str, folder: Path) -> Path:
    """The example, with the address that the shop has here."""
    file = folder / "flow.yaml"
    text = (EXAMPLES / "flow.yaml").read_text(encoding="utf-8")
    file.write_text(text.replace("http://127.0.0.1:8001", shop), encoding="utf-8")
    return file


def flow_command(installation: Installation, *arguments: str | Path) -> Result:
    """In this process: starting another takes longer than all it does."""
    env = {"CRAWLFLEET_DATA_DIR": str(installation.data_dir), "CRAWLFLEET_URL": "", "CRAWLFLEET_TOKEN": ""}
    return CliRunner().invoke(app, ["flow", *map(str, arguments)], env={**env, "COLUMNS": "200"})


def test_the_example_looks_at_every_product(
    installation: Installation, client: Client, shop: str, tmp_path: Path
) -> None:
    done = flow_command(installation, "submit", of_shop(shop, tmp_path), "--wait", "--json")
    assert done.exit_code == 0, done.output
    flow: Any = json.loads(done.stdout)
    steps = {step["key"]: step for step in flow["steps"]}
    assert {key: (step["status"], step["is_skipped"]) for key, step in steps.items()} == {
        "list": ("completed", False),
        "each": ("completed", False),
        "report": ("completed", False),
        "sorry": ("cancelled", True),
        "end": ("completed", False),
    }
    assert steps["each"]["items"] == {"total": 20, "by_status": {"completed": 20}}
    report = client.get(steps["report"]["task_id"])
    assert report.result is not None
    assert (report.result.data["looked_at"], report.result.data["failed"]) == (20, 0)
    assert report.result.data["first"]["price"].startswith("$")
    assert client.why(steps["sorry"]["task_id"]).sentence == "was skipped: step each did not fail"

    shown = flow_command(installation, "show", flow["id"]).stdout
    assert "each  completed  web_crawl  20/20 items" in shown
    assert "sorry  skipped" in shown
    listed = flow_command(installation, "list", "--project", "shop").stdout
    assert flow["id"] in listed


def test_a_flow_that_failed_is_resumed(installation: Installation, client: Client, tmp_path: Path) -> None:
    retry = {"max_retries": 0}
    steps: dict[str, Any] = {
        "once": {"task": {"task_type": "echo", "parameters": {"n": [1, 2]}}},
        # It fails as often as it was tried: not when it is opened again with one try more.
        "bad": {"task": {"task_type": "fail", "parameters": {"times": 1}, "retry": retry}, "after": ["once"]},
        "last": {"task": {"task_type": "echo"}, "after": ["bad"]},
    }
    file = tmp_path / "flow.json"
    file.write_text(json.dumps({"steps": steps}), encoding="utf-8")
    failed = flow_command(installation, "submit", file, "--wait")
    assert failed.exit_code == 4
    assert "ended as failed" in failed.stderr
    (flow,) = [one for one in client.flows(limit=10) if one.status == "failed"]
    resumed = flow_command(installation, "resume", flow.id)
    assert resumed.exit_code == 0, resumed.output
    again = client.wait_flow(flow.id, PATIENCE_S)
    rounds = {step.key: (step.status, step.round) for step in again.steps}
    assert rounds == {"once": ("completed", 1), "bad": ("failed", 2), "last": ("cancelled", 2)}
    assert flow_command(installation, "drop", flow.id).exit_code == 0
    with pytest.raises(ApiError):
        client.flow(flow.id)
