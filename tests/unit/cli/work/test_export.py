"""`export`, `quality` and `log` at the command line, against a server that behaves as told."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from typer.testing import CliRunner, Result

from crawlfleet.cli.app import app
from crawlfleet.client._generated.models import TaskView
from tests.unit.client.nouns.test_exports import TASK, file
from tests.unit.client.test_client import Script, error, served

EXPORT = f"/api/v1/tasks/{TASK}/results:export"
AT = "2026-01-01T00:00:00Z"
NOTE = "no max_pages was given: the default of 100 applied"


def crawled(**more: Any) -> dict[str, Any]:
    fields: dict[str, Any] = dict.fromkeys((field.name for field in msgspec.structs.fields(TaskView)), None)
    fields |= dict.fromkeys(("priority", "timeout_s", "retry_count", "max_retries", "losses", "round"), 1)
    fields |= {name: {} for name in ("parameters", "min_resources", "capabilities", "content_features")}
    fields |= {"categories": [], "depends_on": [], "require_region": False, "preemptible": False, "queue": "default"}
    fields |= {"id": TASK, "task_type": "web_crawl", "status": "completed", "created_at": AT, "updated_at": AT}
    fields |= {"retry": {"max_retries": 3, "base_delay_s": 2.0, "max_delay_s": 300.0}}
    result = {"success": True, "data": {"pages": []}, "metrics": {}, "timestamp": AT, "notes": [NOTE]}
    return fields | {"result": result} | more


async def said(script: Script, *arguments: str, code: int = 0) -> Result:
    async with served(script) as client:
        words = [*arguments, "--url", client.url, "--token", "secret"]
        result = await asyncio.to_thread(CliRunner().invoke, app, words)
    assert result.exit_code == code, result.output
    return result


@pytest.mark.parametrize(
    ("name", "more", "format"),
    [
        ("items.csv", [], "csv"),
        ("items.parquet", [], "parquet"),
        ("items.txt", ["--format", "jsonl"], "jsonl"),
        ("items", [], "jsonl"),
        ("items", ["--format", "csv"], "csv"),
        ("items.csv", ["--format", "jsonl"], "jsonl"),
    ],
)
async def test_the_name_of_the_file_tells_the_format(tmp_path: Path, name: str, more: list[str], format: str) -> None:
    script = Script(file(b"data"))
    told = await said(script, "task", "export", TASK, "-o", str(tmp_path / name), "--json", *more)
    assert script.requests == [f"GET {EXPORT}?format={format}&bom=false&guard=false"]
    assert json.loads(told.stdout) == {"file": str(tmp_path / name), "bytes": 4, "is_complete": True}
    assert (tmp_path / name).read_bytes() == b"data"


@pytest.mark.parametrize("name", ["pages.warc.gz", "pages.warc"])
@pytest.mark.parametrize("kept", [True, False])
async def test_an_archive_that_was_never_kept_is_told(tmp_path: Path, name: str, kept: bool) -> None:
    task = crawled(parameters={"url": "http://a.test/", **({"archive": "warc"} if kept else {})})
    script = Script(lambda: web.json_response(task), file(b"data"))
    told = await said(script, "task", "export", TASK, "-o", str(tmp_path / name), "--json")
    assert script.requests[1] == f"GET {EXPORT}?format=warc&bom=false&guard=false"
    assert json.loads(told.stdout)["bytes"] == 4
    assert ("no pages were kept" in told.stderr) is not kept
    of_group = Script(lambda: web.json_response({"tasks": [task], "next_cursor": None}), file(b"data"))
    told = await said(of_group, "group", "export", "group-0000000000000001", "--format", "warc")
    assert (told.stdout_bytes, "no pages were kept" in told.stderr) == (b"data", not kept)


async def test_without_a_file_it_goes_to_standard_output() -> None:
    told = await said(Script(file(b"a,b\r\n")), "task", "export", TASK, "--format", "csv", "--bom", "--guard")
    assert told.stdout_bytes == b"a,b\r\n"


async def test_what_cannot_be_is_told(tmp_path: Path) -> None:
    script = Script(file(b"data"))
    assert "'xlsx' is none of" in (await said(script, "task", "export", TASK, "--format", "xlsx", code=2)).stderr
    await said(script, "task", "export", TASK, "--json", code=2)
    assert script.requests == []
    for name in ("/", ".", str(tmp_path)):
        assert "Is a directory" in (await said(script, "task", "export", TASK, "-o", name, code=1)).stderr
    packed = await said(script, "task", "export", TASK, "-o", str(tmp_path / "items.csv.gz"), code=2)
    assert "is not compressed" in packed.stderr
    assert script.requests == []
    nowhere = await said(script, "task", "export", TASK, "-o", str(tmp_path / "no" / "items.csv"), code=1)
    assert "cannot write" in nowhere.stderr
    refused = await said(Script(error(404)), "task", "export", TASK, "-o", str(tmp_path / "items.csv"), code=3)
    assert "went wrong" in refused.stderr


async def test_an_export_of_unfinished_work_says_so(tmp_path: Path) -> None:
    told = await said(Script(file(b"{}\n", is_complete=False)), "task", "export", TASK, "-o", str(tmp_path / "x.jsonl"))
    assert "3 bytes; the task has not completed" in told.stdout


async def test_quality_is_a_table_or_json() -> None:
    field = {"name": "title", "filled": 3, "fill_rate": 0.75, "types": {"text": 3, "null": 1}}
    report = {
        "items": 4,
        "pages": 2,
        "items_per_page": 2.0,
        "duplicates": 1,
        "is_exact": False,
        "is_final": True,
        "fields": [field],
        "fields_left_out": 0,
    }
    told = await said(Script(lambda: web.json_response(report)), "task", "quality", TASK)
    assert "about 1" in told.stdout
    assert ["title", "75.0%", "text", "3,", "null", "1"] in [line.split() for line in told.stdout.splitlines()]
    told = await said(Script(lambda: web.json_response(report)), "group", "quality", "group-1", "--partial", "--json")
    assert json.loads(told.stdout) == report
