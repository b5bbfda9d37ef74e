"""A crawl that knows an earlier one: what is new, changed, unchanged and gone."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from crawlfleet.execution.crawl.record.page_notes import EarlierNotes
from crawlfleet.execution.sdk import TaskError
from tests.unit.execution.crawl.crawl_kit import Answer, Heard, crawl, site

SINCE = "task-0000000000000001"
SELECTORS = {"selectors": {"title": "h1"}}


def links(*paths: str) -> str:
    return "".join(f'<a href="{path}">x</a>' for path in paths)


class Shop(dict[str, Answer | str]):
    """Pages by path that may be changed meanwhile; those in `tagged` have an ETag and answer 304."""

    def __init__(self, pages: dict[str, str], tagged: str = "") -> None:
        super().__init__({path: self._answer(path) for path in (*pages, "/new")})
        self.texts = pages
        self.tagged = tagged.split()
        self.not_modified: list[str] = []

    def _answer(self, path: str) -> Answer:
        async def answer(request: web.Request) -> web.Response:
            if path not in self.texts:
                raise web.HTTPNotFound
            text = self.texts[path]
            headers = {"ETag": f'"{hash(text)}"'} if path in self.tagged else {}
            if headers and request.headers.get("If-None-Match") == headers["ETag"]:
                self.not_modified.append(path)
                return web.Response(status=304, headers=headers)
            return web.Response(text=text, content_type="text/html", headers=headers)

        return answer


def shop() -> Shop:
    pages = {
        "/": "<h1>start</h1>" + links("/a", "/b", "/c", "/d"),
        "/a": "<h1>a</h1>" + links("/deep"),
        "/b": "<h1>b</h1>",
        "/c": "<h1>c</h1>",
        "/d": "<h1>d</h1>",
        "/deep": "<h1>deep</h1>",
    }
    return Shop(pages, tagged="/ /a")


def told(heard: Heard, url: str) -> dict[str, str | None]:
    return {item["_page"].removeprefix(url): item.get("change") for item in heard.items if "_page" in item}


def titles(heard: Heard) -> list[str]:
    return sorted(value for item in heard.items if "_page" not in item for value in item["title"])


async def test_what_has_become_of_each_page() -> None:
    pages = shop()
    async with site(pages) as served:
        asked: dict[str, Any] = {"url": f"{served.url}/", "depth": 2, **SELECTORS}
        first = Heard()
        result = await crawl({**asked, "keep_pages": True}, first)
        assert "changes" not in result["metrics"]
        assert told(first, served.url) == dict.fromkeys(pages.texts)
        assert len(titles(first)) == 6
        pages.texts["/b"] = "<h1>b2</h1>" + links("/new")
        pages.texts["/new"] = "<h1>new</h1>"
        del pages.texts["/d"]
        second = Heard()
        result = await crawl({**asked, "since": SINCE}, second, earlier=first)
        assert told(second, served.url) == {
            "/": "unchanged",
            "/a": "unchanged",
            "/b": "changed",
            "/c": "unchanged",
            "/d": "gone",
            "/deep": "unchanged",
            "/new": "new",
        }
        # Both were asked for on a condition, and what they lead to was visited all the same.
        assert sorted(pages.not_modified) == ["/", "/a"]
        assert titles(second) == ["b2", "new"]
        assert {name: result["metrics"]["changes"][name] for name in ("new", "changed", "unchanged", "gone")} == {
            "new": 1,
            "changed": 1,
            "unchanged": 4,
            "gone": 1,
        }
        assert result["metrics"]["changes"]["urls"]["gone"] == [f"{served.url}/d"]
        # What it noted is enough for the next one.
        third = Heard()
        result = await crawl({**asked, "since": SINCE}, third, earlier=second)
        assert (result["metrics"]["changes"]["unchanged"], result["metrics"]["changes"]["gone"], titles(third)) == (
            6,
            0,
            [],
        )


async def test_unchanged_pages_are_kept_on_demand() -> None:
    async with site(shop()) as served:
        asked: dict[str, Any] = {"url": f"{served.url}/", "depth": 2, **SELECTORS}
        first, second = Heard(), Heard()
        await crawl({**asked, "keep_pages": True}, first)
        result = await crawl({**asked, "since": SINCE, "keep_unchanged": True}, second, earlier=first)
        assert titles(second) == titles(first)
        assert result["metrics"]["changes"]["unchanged"] == 6


async def test_a_crawl_that_was_stopped_calls_nothing_gone() -> None:
    async with site(shop()) as served:
        asked: dict[str, Any] = {"url": f"{served.url}/", "depth": 2}
        first = Heard()
        await crawl({**asked, "keep_pages": True}, first)
        result = await crawl({**asked, "since": SINCE, "max_pages": 2}, Heard(), earlier=first)
        assert (result["metrics"]["changes"]["gone"], result["metrics"]["changes"]["not_visited"]) == (0, 4)


async def test_a_page_that_only_fails_is_not_gone() -> None:
    pages = shop()
    async with site(pages) as served:
        asked: dict[str, Any] = {"url": f"{served.url}/", "depth": 2}
        first = Heard()
        await crawl({**asked, "keep_pages": True}, first)

        async def broken(request: web.Request) -> web.Response:
            raise web.HTTPInternalServerError

        pages["/c"] = broken
        second = Heard()
        result = await crawl({**asked, "since": SINCE}, second, earlier=first)
        assert (result["metrics"]["changes"]["gone"], result["metrics"]["changes"]["unchanged"]) == (0, 5)
        assert told(second, served.url)["/c"] == "failed"
        # The next one looks for it again, although the page that links to it is the same and not read.
        pages["/c"] = "<h1>c</h1>"
        result = await crawl({**asked, "since": SINCE}, Heard(), earlier=second)
        assert (result["metrics"]["changes"]["unchanged"], pages.not_modified.count("/")) == (6, 2)


async def test_a_page_that_failed_from_the_beginning_is_new_when_it_comes() -> None:
    pages = shop()
    async with site(pages) as served:
        asked: dict[str, Any] = {"url": f"{served.url}/", "depth": 2}
        first, second = Heard(), Heard()

        async def broken(request: web.Request) -> web.Response:
            raise web.HTTPInternalServerError

        pages["/c"] = broken
        await crawl({**asked, "keep_pages": True}, first)
        pages["/c"] = "<h1>c</h1>"
        await crawl({**asked, "since": SINCE}, second, earlier=first)
        assert told(second, served.url)["/c"] == "new"
        del pages["/c"]
        result = await crawl({**asked, "since": SINCE}, Heard(), earlier=first)
        assert result["metrics"]["changes"]["gone"] == 0


async def test_an_earlier_task_that_noted_nothing_is_told_so() -> None:
    async with site({"/": "x"}) as served:
        for earlier in (None, Heard()):
            with pytest.raises(TaskError, match="since: ") as refused:
                await crawl({"url": f"{served.url}/", "since": SINCE}, earlier=earlier)
            assert (refused.value.error, refused.value.permanent) == ("input", True)
        assert served.hits == []


def test_notes_that_make_no_sense_are_passed_over() -> None:
    earlier = EarlierNotes()
    good = {"_page": "http://a/", "depth": "x", "etag": None}
    earlier.add_notes([{"_page": 7}, {"title": "x"}, good, {"_page": "http://b/", "change": "gone"}])
    assert earlier.pages == {"http://a/": (0, "", "", "")}
