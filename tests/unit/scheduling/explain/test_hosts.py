"""What a running task waits for at its hosts."""

from dataclasses import replace

import pytest

from crawlfleet.control.explain.host_waits import _parameter_hosts
from crawlfleet.model.host import Backoff, HostShare, Units
from crawlfleet.model.instants import to_text
from crawlfleet.model.status import TaskStatus
from crawlfleet.scheduling.explain.hosts import HostDemand, host_waits
from crawlfleet.scheduling.explain.task import explain_task
from crawlfleet.scheduling.hosts.budgets import HostBudget
from tests.node_states import node_state
from tests.unit.scheduling.explain.test_task import HELD, LANE, NOW

BUDGET = HostBudget(1.0, 2, 0.0)
SHARE = HostShare(1, 1, 1, "a.example", wanted=8, current=Units(1, 1))
AWAY = Backoff(1, NOW + 60_000, NOW + 60_000, "answered 429")


def said(use: HostDemand) -> list[str]:
    return [wait.sentence for wait in host_waits([use], NOW)]


def test_a_back_off_is_what_it_waits_for() -> None:
    (wait,) = host_waits([HostDemand(SHARE, AWAY, BUDGET, 4)], NOW)
    assert wait.sentence == f"waits for host a.example: in back-off until {to_text(NOW + 60_000)}, in 1 min 0 s"
    assert wait.as_data() == {
        "host": "a.example",
        "cause": "host_backoff",
        "until": to_text(NOW + 60_000),
        "reason": "answered 429",
    }


def test_a_budget_that_is_too_small_is_named_with_those_who_share_it() -> None:
    assert said(HostDemand(SHARE, Backoff(), BUDGET, 4)) == [
        "waits for host a.example: its budget of 1/s, 2 at once is shared by 4 nodes "
        "(crawlfleet host set a.example --rate 2 --concurrency 4 raises it)"
    ]
    assert said(HostDemand(SHARE, Backoff(), BUDGET, 1)) == [
        "waits for host a.example: its budget of 1/s, 2 at once is this node's alone "
        "(crawlfleet host set a.example --rate 2 --concurrency 4 raises it)"
    ]
    turn = replace(SHARE, current=Units(0, 0))
    assert said(HostDemand(turn, Backoff(), HostBudget(1.0, 1, 10.0), 2)) == [
        "waits for host a.example: its budget of one request in 10 s is shared by 2 nodes, "
        "and it is the turn of another (crawlfleet host set a.example --delay 5 shortens it)"
    ]


def test_a_rate_that_is_used_up_is_what_it_waits_for_however_few_requests_are_under_way() -> None:
    share = replace(SHARE, wanted=8, current=Units(10, 8))
    use = HostDemand(share, Backoff(), HostBudget(10.0, 8, 0.0), 1)
    assert said(use._replace(requests_per_s=4.0)) == []
    (sentence,) = said(use._replace(requests_per_s=9.4))
    assert "its budget of 10/s, 8 at once is this node's alone" in sentence
    assert "crawlfleet host set a.example --rate 20 --concurrency 16 raises it" in sentence


@pytest.mark.parametrize(
    ("budget", "remedy"),
    [
        (
            HostBudget(1.0, 1, 8.0, delay_from="robots"),
            "as its robots.txt asks; crawlfleet host set a.example --delay 4",
        ),
        (HostBudget(1.0, 8, 0.0, rate_from="back-off"), "less after refusals; crawlfleet host forgive a.example ends"),
    ],
)
def test_the_remedy_is_for_what_limits(budget: HostBudget, remedy: str) -> None:
    (sentence,) = said(HostDemand(SHARE, Backoff(), budget, 1))
    assert remedy in sentence


@pytest.mark.parametrize(
    "share", [replace(SHARE, current=Units(8, 8)), replace(SHARE, wanted=0), replace(SHARE, wanted=None)]
)
def test_a_node_that_has_what_it_wants_waits_for_nothing(share: HostShare) -> None:
    assert said(HostDemand(share, Backoff(), HostBudget(100.0, 100, 0.0), 4)) == []


def test_back_offs_come_first() -> None:
    uses = [HostDemand(SHARE, Backoff(), BUDGET, 4), HostDemand(replace(SHARE, host="z.example"), AWAY, BUDGET, 4)]
    assert [wait.host for wait in host_waits(uses, NOW)] == ["z.example", "a.example"]


def test_a_running_task_says_what_it_waits_for() -> None:
    task = replace(HELD, status=TaskStatus.PROCESSING, started_at=NOW - 12_000)
    waits = host_waits([HostDemand(SHARE, AWAY, BUDGET, 4)], NOW)
    answer = explain_task(task, LANE, is_queue_paused=False, parents={}, nodes=[node_state(1)], now=NOW, hosts=waits)
    assert answer.sentence.startswith("runs on node n1 for 12 s, waits for host a.example: in back-off until ")
    assert answer.data["cause"] == "processing"
    assert [one["host"] for one in answer.data["waits_for"]] == ["a.example"]


@pytest.mark.parametrize(
    ("parameters", "hosts"),
    [
        (b'{"url": "https://A.example./x"}', {"a.example"}),
        (b'{"urls": ["http://u:p@a.example:8080/", "https://b.example:443", "c"]}', {"a.example:8080", "b.example"}),
        (b'{"start_urls": ["http://[::1]:81/"], "url": 5}', {"[::1]:81"}),
        (b'{"urls": {"a": 1}, "url": null}', set()),
        (b"[1, 2]", set()),
        (b"not json", set()),
    ],
)
def test_hosts_are_named_as_their_budgets_are(parameters: bytes, hosts: set[str]) -> None:
    assert set(_parameter_hosts(parameters)) == hosts
