"""The call to the watchdog."""

from __future__ import annotations

import pytest

from crawlfleet.errors import ConfigError
from crawlfleet.notices.watchdog import WatchdogCall
from testkit.notice_receiver import Fault, NoticeReceiver, accept_all
from testkit.patience import PATIENCE_S
from tests.unit.notices.notice_kit import NOW

TOKEN = "f3b1c2d4-aaaa-4bbb"


def watchdog(receiver: NoticeReceiver) -> WatchdogCall:
    return WatchdogCall(f"{receiver.origin}/ping/{TOKEN}?rid=7", lambda: NOW, send_s=PATIENCE_S)


async def test_a_call_is_a_get_without_a_body() -> None:
    async with NoticeReceiver(accept_all) as receiver:
        assert await watchdog(receiver)() is None
    request = receiver.requests[0]
    assert (request.method, request.path, request.query, request.body) == ("GET", f"/ping/{TOKEN}", {"rid": "7"}, b"")


@pytest.mark.parametrize(
    ("fault", "words"),
    [(Fault.GONE, "status 410: no such hook"), (Fault.CLOSE, "the connection was closed before the answer")],
)
async def test_a_failure_is_described_without_the_secret(fault: Fault, words: str) -> None:
    async with NoticeReceiver(accept_all, fault) as receiver:
        assert await watchdog(receiver)() == words
    async with NoticeReceiver(lambda request: (404, f"no check {request.path}")) as receiver:
        assert await watchdog(receiver)() == "status 404: no check ***"


@pytest.mark.parametrize(
    "url", ["ftp://x/", "x", "", "https://", "https://a b/", "https://u:p@x/", "https://[::1/", "https://x:99999/"]
)
def test_an_address_that_cannot_be_used_names_the_setting(url: str) -> None:
    with pytest.raises(ConfigError, match="alert_watchdog_url"):
        WatchdogCall(url, lambda: NOW)
