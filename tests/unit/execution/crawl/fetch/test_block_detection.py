"""Walls: told from pages that only look a little like them; and what a crawl makes of them."""

from __future__ import annotations

import time

import pytest
from multidict import CIMultiDict

from crawlfleet.execution.budget.host_gate import OpenGate
from crawlfleet.execution.crawl.engine import crawl as crawling
from crawlfleet.execution.crawl.engine.block_tracker import KNOWN_BLOCK_WEIGHT, MAX_REFUSALS, BlockTracker
from crawlfleet.execution.crawl.fetch.block_detection import LOOK_AT_BYTES, detect_block_product
from crawlfleet.execution.crawl.fetch.file_signatures import file_kind
from crawlfleet.execution.executors.builtin.web_crawl import WebCrawl
from crawlfleet.execution.page_failures import refused_by_site
from crawlfleet.execution.sdk import TaskContext
from tests.unit.execution.crawl.crawl_kit import LOOPBACK, Heard, site

CAPTCHA = b'<p>Please verify that you are a human.</p><div class="g-recaptcha" data-sitekey="x"></div>'
ARTICLE = b"<p>" + b"A long text about many things that people read. " * 60 + b"</p>"


@pytest.mark.parametrize(
    ("status", "headers", "body", "whose"),
    [
        (403, {"CF-Mitigated": "challenge"}, b"", "Cloudflare"),
        (503, {}, b'<script src="/cdn-cgi/challenge-platform/h/g/orchestrate.js"></script>', "Cloudflare"),
        (403, {}, b"<title>Attention Required! | Cloudflare</title>", "Cloudflare"),
        (200, {}, b"<script>window._cf_chl_opt={}</script>", "Cloudflare"),
        (202, {"x-amzn-waf-action": "challenge"}, b"", "AWS WAF"),
        (405, {"x-amzn-waf-action": "captcha"}, b"", "AWS WAF"),
        (403, {"x-datadome": "protected"}, b"", "DataDome"),
        (200, {}, b'<iframe src="https://geo.captcha-delivery.com/captcha/">', "DataDome"),
        (403, {}, b'<div id="px-captcha"></div>', "HUMAN"),
        (200, {}, b'<iframe src="/_Incapsula_Resource?SWUDNSAI=1">Request unsuccessful.', "Imperva"),
        (403, {}, b"Access Denied. Reference #18.a1 https://errors.edgesuite.net/18.a1", "Akamai"),
        (200, {}, b'<form action="/errors/validateCaptcha">', "Amazon"),
        (200, {}, CAPTCHA, "captcha"),
        (429, {}, b"Our systems have detected unusual traffic <div class=g-recaptcha>", "captcha"),
        (200, {}, "<p>百度安全验证</p><script src=captcha.js>".encode(), "captcha"),
        # Good pages:
        (200, {}, ARTICLE, None),
        (200, {"x-datadome": "protected", "cf-ray": "1"}, ARTICLE, None),
        (200, {}, ARTICLE + b'<script src="/cdn-cgi/challenge-platform/scripts/jsd/main.js"></script>', None),
        (200, {}, ARTICLE + CAPTCHA, None),
        (200, {}, b'<form>Write to us <div class="g-recaptcha"></div></form>', None),
        (200, {}, b"<p>I am not a robot, I am a poem.</p>", None),
        (200, {}, CAPTCHA + b" " * LOOK_AT_BYTES, None),
        (403, {}, b"<h1>Members only</h1>", None),
        (503, {}, b"<h1>Maintenance</h1>", None),
    ],
)
def test_wall_of(status: int, headers: dict[str, str], body: bytes, whose: str | None) -> None:
    assert detect_block_product(status, CIMultiDict(headers), body) == whose


@pytest.mark.parametrize(
    ("status", "wall", "error", "kind", "permanent"),
    [
        (200, "captcha", "blocked", "blocked", False),
        (503, "Cloudflare", "blocked", "blocked", False),
        (403, None, "blocked", "blocked", False),
        (429, None, "blocked", "rate_limited", False),
        (503, None, "http", "status", False),
        (404, None, "http", "status", True),
    ],
)
def test_what_a_refusal_is(status: int, wall: str | None, error: str, kind: str, permanent: bool) -> None:
    told = refused_by_site("http://a.test/", status, 0.0, wall)
    assert (told.error, told.kind, told.permanent) == (error, kind, permanent)
    assert wall is None or wall in str(told)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"%PDF-1.7", "a PDF"),
        (b"\xff\xd8\xff\xe0", "a JPEG"),
        (b"\x1f\x8b\x08\x00", "gzip"),
        (b"\0\0\0\x18ftypmp42", "a video"),
        (b"RIFF\0\0\0\0WEBP", "a picture"),
        (b"<html>", None),
        (b"", None),
        (b"GIFTS for everybody", None),
        (b"PKW und LKW", None),
        ("<html>".encode("utf-16"), None),
    ],
)
def test_files_are_known_by_their_bytes(body: bytes, kind: str | None) -> None:
    assert file_kind(body) == kind


class Gate(OpenGate):
    def __init__(self) -> None:
        self.told: list[str] = []

    def report_block(self, host: str) -> None:
        self.told.append(host)


PLAIN = refused_by_site("http://a.test/", 403, 0.0)
WALL = refused_by_site("http://a.test/", 403, 0.0, "Akamai")


def test_blocks_are_told_once_the_crawl_has_something() -> None:
    gate = Gate()
    blocks = BlockTracker(gate)
    blocks.note_failure("http://a.test/1", WALL)
    assert gate.told == []
    blocks.note_page_read("http://b.test/")
    assert gate.told == ["a.test"]
    blocks.note_failure("http://b.test/2", PLAIN)
    blocks.note_failure("http://b.test/3", refused_by_site("http://b.test/3", 500, 0.0))
    assert gate.told == ["a.test", "b.test"]


@pytest.mark.parametrize(("failure", "enough"), [(PLAIN, MAX_REFUSALS), (WALL, MAX_REFUSALS // KNOWN_BLOCK_WEIGHT)])
def test_a_host_that_lets_nothing_through_is_given_up(failure: Exception, enough: int) -> None:
    blocks = BlockTracker(Gate())
    for _ in range(enough - 1):
        blocks.note_failure("http://a.test/", failure)  # type: ignore[arg-type]
    blocks.note_page_read("http://a.test/good")
    for _ in range(enough - 1):
        blocks.note_failure("http://a.test/", failure)  # type: ignore[arg-type]
    assert not blocks.given_up
    blocks.note_failure("http://a.test/", failure)  # type: ignore[arg-type]
    assert blocks.given_up == {"a.test"}
    assert any("a.test was left" in note for note in blocks.describe_blocks())


class Closing(OpenGate):
    """Lets one page through, and then nobody for a while."""

    def __init__(self) -> None:
        self._until = 0.0

    def end_request(self, host: str) -> None:
        self._until = self._until or time.monotonic() + 0.4

    def away_s(self, host: str) -> float:
        return self._until - time.monotonic() if self._until else 0.0

    def is_ready(self, host: str) -> bool:
        return self.away_s(host) <= 0


async def test_a_crawl_that_stands_still_for_a_host_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crawling, "PATIENCE_S", 0.1)
    heard = Heard()
    async with site({"/": '<a href="/b">b</a>', "/b": "x"}) as served:
        parameters = {"url": f"{served.url}/", "depth": 1, "max_pages": 5, "respect_robots": False}
        context = TaskContext(
            heard,
            task_id="task-1",
            execution_id="exec-1",
            task_type="web_crawl",
            parameters=parameters,
            allow_hosts=LOOPBACK,
            gate=Closing(),
        )
        result = await WebCrawl().run(context)
        host = served.url.removeprefix("http://")
    assert result["metrics"]["pages_crawled"] == 2
    assert [line for level, line in heard.lines if level == "warning"] == [
        f"{host} asks to be left alone: the crawl waits for another 0 s"
    ]
    assert result["notes"] == [f"{host} asked to be left alone for 0 s, and was"]


def test_each_wait_for_a_host_is_told_once() -> None:
    blocks = BlockTracker(OpenGate())
    assert (
        blocks.note_wait("a.test", 3_600, 100.0) == "a.test asks to be left alone: the crawl waits for another 3600 s"
    )
    assert blocks.note_wait("a.test", 3_590, 110.0) is None
    assert blocks.note_wait("b.test", 9, 110.0) is not None
    assert blocks.note_wait("a.test", 20, 4_000.0) is not None
    assert blocks.describe_blocks() == [
        "a.test asked to be left alone for 3600 s, and was",
        "b.test asked to be left alone for 9 s, and was",
    ]
