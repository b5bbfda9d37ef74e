"""What the page about results shows, against a real installation: its code, and an archive from crawl to file."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest
from warcio.archiveiterator import ArchiveIterator

from crawlfleet.client import Client
from tests.docs.conftest import PATIENCE_S, Installation
from tests.docs.test_pages import blocks
from tests.paths import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.slow]
COMMAND = (sys.executable, "-m", "crawlfleet.cli")


def test_python_of_the_page_runs(installation: Installation, tmp_path: Path) -> None:
    _wait_for_type(installation, "word_count")
    (block,) = blocks(ROOT / "docs" / "results.md", "python")
    said = installation.run(sys.executable, "-c", block, folder=tmp_path).splitlines()
    assert said == [
        "words.csv True",
        "6 items, 2 duplicates",
        "word 1.0 {'text': 6}",
        "letters 1.0 {'integer': 6}",
        "counted 6 words",
    ]
    written = (tmp_path / "words.csv").read_text(encoding="utf-8").splitlines()
    assert written[:3] == ["word,letters", "to,2", "be,2"]


def test_a_crawl_is_archived_and_exported_as_warc(installation: Installation, shop: str, tmp_path: Path) -> None:
    asked = {"url": f"{shop}/products", "depth": 1, "max_pages": 30, "archive": "warc"}
    crawl = ("task", "submit", "web_crawl", "--params", json.dumps(asked), "--wait", "--json")
    task = json.loads(installation.run(*COMMAND, *crawl))
    told = json.loads(
        installation.run(*COMMAND, "task", "export", task["id"], "-o", "pages.warc.gz", "--json", folder=tmp_path)
    )
    assert told["is_complete"]
    with (tmp_path / "pages.warc.gz").open("rb") as file:
        kinds = [one.rec_type for one in ArchiveIterator(file, check_digests="raise")]
    metrics = task["result"]["metrics"]
    assert kinds[0] == "warcinfo"
    assert kinds.count("response") + kinds.count("revisit") == kinds.count("request")
    assert kinds.count("request") == metrics["pages_crawled"] == metrics["archive"]["pages"] > 10


def _wait_for_type(installation: Installation, name: str) -> None:
    """A node brings the examples' task types along when it joins."""
    deadline = time.monotonic() + PATIENCE_S
    with Client(installation.url, installation.token) as client:
        while name not in {known.name for known in client.task_types()}:
            assert time.monotonic() < deadline, installation.log.read_text(encoding="utf-8")
            time.sleep(0.05)
