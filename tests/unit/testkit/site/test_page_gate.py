"""The gate before the pages of the test site: which requests it holds, and what releases them."""

from __future__ import annotations

import asyncio

import pytest

from testkit.site.page_gate import DELAY_VARIABLE, PageGate, page_delay_s


async def test_an_open_gate_holds_nothing() -> None:
    gate = PageGate()
    assert gate.admit("/products/1") is None
    assert gate.held() == 0


async def test_only_pages_that_match_are_held_and_robots_and_doors_never() -> None:
    gate = PageGate()
    gate.hold(r"^/products/\d+$")
    assert [gate.admit(path) is None for path in ("/", "/products", "/products/1", "/products/1?a=b")] == [
        True,
        True,
        False,
        True,
    ]
    gate.hold()
    assert [gate.admit(path) is None for path in ("/robots.txt", "/-/held", "/")] == [True, True, False]
    assert gate.held() == 2


async def test_the_first_so_many_pass() -> None:
    gate = PageGate()
    gate.hold("^/p", after=2)
    assert [gate.admit(path) is None for path in ("/p1", "/q1", "/p2", "/p3")] == [True, True, True, False]


async def test_a_release_lets_everything_go_on_and_opens_the_gate() -> None:
    gate = PageGate()
    gate.hold()
    waiting = [gate.admit(f"/{number}") for number in range(3)]
    waits = [asyncio.create_task(gate.wait(one)) for one in waiting if one is not None]
    await gate.wait_held(3)
    gate.release()
    await asyncio.gather(*waits)
    assert (gate.held(), gate.admit("/4")) == (0, None)


async def test_a_pattern_is_released_without_the_others() -> None:
    gate = PageGate()
    gate.hold("^/a")
    gate.hold("^/b")
    held = {path: gate.admit(path) for path in ("/a1", "/a2", "/b1")}
    assert (gate.held("^/a"), gate.held("^/b"), gate.held("^/c")) == (2, 1, 0)
    assert (gate.release("^/a"), gate.release("^/c")) == (2, 0)
    assert [path for path, waiting in held.items() if waiting is not None and waiting.done()] == ["/a1", "/a2"]
    assert (gate.admit("/a3"), gate.admit("/b2") is None) == (None, False)


async def test_closing_again_for_a_pattern_keeps_what_is_held() -> None:
    gate = PageGate()
    gate.hold("^/a")
    gate.admit("/a1")
    gate.hold("^/a", after=1)
    assert gate.admit("/a2") is None
    assert gate.release("^/a") == 1


async def test_who_waits_for_held_requests_is_woken_by_the_last_of_them() -> None:
    gate = PageGate()
    gate.hold()
    woken = asyncio.create_task(gate.wait_held(2))
    gate.admit("/1")
    await asyncio.sleep(0)
    assert not woken.done()
    gate.admit("/2")
    await woken


async def test_a_request_whose_client_leaves_is_not_held_any_more() -> None:
    gate = PageGate()
    gate.hold()
    held = gate.admit("/1")
    assert held is not None
    waits = asyncio.create_task(gate.wait(held))
    await asyncio.sleep(0)
    waits.cancel()
    await asyncio.gather(waits, return_exceptions=True)
    assert gate.held() == 0


async def test_a_pattern_that_does_not_parse_is_told() -> None:
    with pytest.raises(ValueError, match="pattern: 'a\\(b'"):
        PageGate().hold("a(b")


def test_the_environment_sets_what_a_page_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DELAY_VARIABLE, raising=False)
    assert page_delay_s(0.3) == 0.3
    monkeypatch.setenv(DELAY_VARIABLE, "0")
    assert page_delay_s(0.3) == 0.0
    monkeypatch.setenv(DELAY_VARIABLE, "0.05")
    assert page_delay_s(0.0) == 0.05
    for wrong in ("soon", "-1", "nan"):
        monkeypatch.setenv(DELAY_VARIABLE, wrong)
        with pytest.raises(ValueError, match=DELAY_VARIABLE):
            page_delay_s(0.0)
