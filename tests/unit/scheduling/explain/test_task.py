import json
from dataclasses import replace
from typing import Any

import pytest

from crawlfleet.model.ids import node_text, task_text
from crawlfleet.model.instants import to_text
from crawlfleet.model.queue import Lane
from crawlfleet.model.requirement import Requirement
from crawlfleet.model.status import ClusterStatus, Health, NodeStatus, Recall, TaskStatus
from crawlfleet.model.task import TaskRecord
from crawlfleet.scheduling.explain.task import Explanation, explain_placement, explain_task, refusal_phrase
from crawlfleet.scheduling.placement.filters import NodeState
from tests.node_states import node_state

NOW = 1_800_000_000_000
BROWSER = Requirement("web_crawl", node_type="gpu", capabilities=(("browser", 1.0),))


def test_it_counts_nodes_by_what_refused_them() -> None:
    capable: dict[str, Any] = {"node_type": "gpu", "capabilities": (("browser", 1.0),)}
    nodes = [node_state(n) for n in range(1, 8)]
    nodes += [node_state(n, node_type="gpu") for n in range(8, 11)]
    nodes += [node_state(n, slots=1, held=1, **capable) for n in (11, 12)]
    found = explain_placement(BROWSER, "p", nodes)
    assert found.sentence == "0 of 12 nodes: 7 wrong node type, 3 no browser, 2 full"
    assert found.as_data() == {
        "nodes": 12,
        "able": 0,
        "full": 2,
        "refusals": {"wrong_node_type": 7, "lacks:browser": 3, "no_slot": 2},
    }
    assert list(found.refusals) == ["wrong_node_type", "lacks:browser", "no_slot"]


def test_what_else_is_missing_is_named_at_once() -> None:
    asked = Requirement("web_crawl", capabilities=(("browser", 1.0), ("proxy", 1.0)), resources=(("gpu", 1.0),))
    nodes = [node_state(1), node_state(2, capabilities=(("proxy", 1.0),))]
    found = explain_placement(asked, "p", nodes)
    assert found.sentence == "0 of 2 nodes: 2 no browser; also missing: gpu"
    assert found.as_data()["also_missing"] == ["gpu"], "a proxy is there"
    found = explain_placement(asked, "p", nodes[:1])
    assert found.sentence == "0 of 1 node: 1 no browser; also missing: proxy, gpu"


def test_no_node_at_all_is_said_as_such() -> None:
    found = explain_placement(BROWSER, "p", [])
    assert (found.sentence, found.nodes, found.able) == ("no node has joined", 0, 0)


def test_one_node_is_not_many() -> None:
    assert explain_placement(BROWSER, "p", [node_state()]).sentence == "0 of 1 node: 1 wrong node type"


def test_nodes_that_could_take_it_are_counted() -> None:
    nodes = [node_state(1), node_state(2), node_state(3, slots=0)]
    found = explain_placement(Requirement("web_crawl"), "p", nodes)
    assert found.sentence == "2 of 3 nodes could take it now: it is placed when its turn comes"
    assert (found.able, found.full) == (2, 1)


def test_overcommit_counts_as_in_placement() -> None:
    asked = Requirement("web_crawl", resources=(("cpu", 3.0),))
    node = node_state(resources=(("cpu", 2.0),))
    assert explain_placement(asked, "p", [node]).sentence == "0 of 1 node: 1 too small (cpu)"
    assert explain_placement(asked, "p", [node], overcommit=1.5).able == 1


@pytest.mark.parametrize(
    ("refusal", "text"),
    [
        ("no_room:memory_mb", "no memory_mb left"),
        ("too_little:gpu_memory", "too little gpu_memory"),
        ("lacks:browsers/firefox", "no browsers/firefox"),
        ("memory_exhausted", "nearly out of memory"),
        ("a_word_of_tomorrow", "a_word_of_tomorrow"),
    ],
)
def test_words_have_phrases(refusal: str, text: str) -> None:
    assert refusal_phrase(refusal) == text


@pytest.mark.parametrize(
    "node",
    [
        {"task_types": ()},
        {"cluster": "b"},
        {"cluster_project": "other"},
        {"node_type": "b"},
        {"region": "b"},
        {"resources": ()},
        *({"cluster_status": status} for status in ClusterStatus if status is not ClusterStatus.ACTIVE),
        *({"status": status} for status in NodeStatus if status is not NodeStatus.ONLINE),
        {"is_session_open": False},
        {"health": Health.UNHEALTHY},
        {"is_pull_only": True},
        {"slots": 0},
        {"reserved": {"cpu": 1.0}},
    ],
)
def test_every_refusal_has_a_phrase_of_its_own(node: dict[str, Any]) -> None:
    asked = Requirement("web_crawl", "default", "standard", None, "a", True, resources=(("cpu", 1.0),))
    found = explain_placement(asked, "p", [node_state(**{"region": "a", "resources": (("cpu", 1.0),)} | node)])
    assert found.able == 0
    (word,) = found.refusals
    assert "_" not in refusal_phrase(word)


LANE = Lane.with_id("bulk", "p", 5, BROWSER)
TASK = TaskRecord(
    id=7,
    project="p",
    workflow=None,
    name=None,
    task_type="web_crawl",
    queue="bulk",
    priority=5,
    created_at=NOW - 90,
    parameters=b"{}",
    spec=None,
    status=TaskStatus.PENDING,
    round=1,
    retries=0,
    losses=0,
    deaths=0,
    waits=0,
    due_at=None,
    timeout_s=60,
    recall=Recall.NONE,
    node=None,
    execution=None,
    assigned_at=None,
    started_at=None,
    ended_at=None,
    reason=None,
    lane=LANE.id,
)


def ask_why(
    task: TaskRecord,
    *,
    is_queue_paused: bool = False,
    parents: dict[int, TaskStatus | None] | None = None,
    nodes: list[NodeState] | None = None,
) -> Explanation:
    answer = explain_task(
        task, LANE, is_queue_paused=is_queue_paused, parents=parents or {}, nodes=nodes or [], now=NOW
    )
    json.dumps(answer.data)
    assert answer.data["status"] == task.status.word
    return answer


def test_pending_says_what_placement_says() -> None:
    answer = ask_why(TASK, nodes=[node_state()])
    assert answer.sentence == "0 of 1 node: 1 wrong node type"
    assert answer.data["cause"] == "no_node"
    assert answer.data["placement"]["refusals"] == {"wrong_node_type": 1}


def test_pending_with_a_node_free_waits_for_its_turn() -> None:
    able = node_state(node_type="gpu", capabilities=(("browser", 1.0),))
    assert ask_why(TASK, nodes=[able]).data["cause"] == "turn"


def test_pending_in_a_paused_queue() -> None:
    answer = ask_why(TASK, is_queue_paused=True, nodes=[node_state()])
    assert answer.sentence == "the queue bulk is paused"
    assert answer.data == {"status": "pending", "cause": "queue_paused", "queue": "bulk"}


def test_waiting_for_one_parent() -> None:
    task = replace(TASK, status=TaskStatus.WAITING, waits=1)
    answer = ask_why(task, parents={3: TaskStatus.PROCESSING})
    assert answer.sentence == f"waits for 1 task to complete: {task_text(3)} (processing)"
    assert answer.data["parents"] == {task_text(3): "processing"}


def test_waiting_for_many_parents_names_three() -> None:
    task = replace(TASK, status=TaskStatus.WAITING, waits=6)
    parents: dict[int, TaskStatus | None] = {
        9: TaskStatus.PENDING,
        2: None,
        5: TaskStatus.RETRYING,
        8: TaskStatus.PENDING,
    }
    answer = ask_why(task, parents=parents)
    assert answer.sentence == (
        f"waits for 6 tasks to complete: {task_text(2)} (unknown), {task_text(5)} (retrying), "
        f"{task_text(8)} (pending), 3 more"
    )
    assert len(answer.data["parents"]) == 4


def test_waiting_for_parents_that_nobody_can_name() -> None:
    answer = ask_why(replace(TASK, status=TaskStatus.WAITING, waits=2))
    assert answer.sentence == "waits for 2 tasks to complete"


def test_waiting_for_a_parent_and_a_time() -> None:
    due_at = NOW + 65_000
    answer = ask_why(replace(TASK, status=TaskStatus.WAITING, waits=1, due_at=due_at))
    assert answer.sentence.endswith(f"; starts at {to_text(due_at)}, in 1 min 5 s at the earliest")


@pytest.mark.parametrize(
    ("wait_ms", "text"),
    [(900, "0 s"), (59_000, "59 s"), (61_000, "1 min 1 s"), (3_660_000, "1 h 1 min"), (90_000_000, "1 d 1 h")],
)
def test_waiting_for_a_time(wait_ms: int, text: str) -> None:
    answer = ask_why(replace(TASK, status=TaskStatus.WAITING, due_at=NOW + wait_ms))
    assert answer.sentence == f"starts at {to_text(NOW + wait_ms)}, in {text}"
    assert answer.data["cause"] == "time"


@pytest.mark.parametrize("due_at", [None, NOW, NOW - 5_000])
def test_waiting_for_a_time_that_has_come(due_at: int | None) -> None:
    assert ask_why(replace(TASK, status=TaskStatus.WAITING, due_at=due_at)).sentence == "starts as soon as it is staged"


@pytest.mark.parametrize(("retries", "deaths", "times"), [(1, 0, "once"), (0, 1, "once"), (2, 1, "3 times")])
def test_retrying_until(retries: int, deaths: int, times: str) -> None:
    due_at = NOW + 4_000
    task = replace(TASK, status=TaskStatus.RETRYING, retries=retries, deaths=deaths, due_at=due_at, reason="HTTP 502")
    answer = ask_why(task)
    assert answer.sentence == f"failed {times}: HTTP 502; is tried again at {to_text(due_at)}, in 4 s"
    assert answer.data["retry_at"] == to_text(due_at)


HELD = replace(TASK, status=TaskStatus.ASSIGNED, node=1, execution=11, assigned_at=NOW - 3_500)


def test_assigned_names_the_node_and_since_when() -> None:
    answer = ask_why(HELD, nodes=[node_state(1, name="crawler-a")])
    assert answer.sentence == "assigned to node crawler-a for 3 s, not started yet"
    assert answer.data["node"] == node_text(1)
    assert answer.data["since"] == to_text(NOW - 3_500)


def test_a_node_that_is_gone_is_named_by_its_id() -> None:
    assert ask_why(HELD).sentence.startswith(f"assigned to {node_text(1)} for")


def test_a_clock_set_back_makes_no_negative_span() -> None:
    assert "for 0 s" in ask_why(replace(HELD, assigned_at=NOW + 9_000)).sentence


def test_processing() -> None:
    task = replace(HELD, status=TaskStatus.PROCESSING, started_at=NOW - 2_000)
    answer = ask_why(task, nodes=[node_state(1)])
    assert answer.sentence == "runs on node n1 for 2 s"
    assert answer.data["cause"] == "processing"


@pytest.mark.parametrize("recall", [recall for recall in Recall if recall is not Recall.NONE])
@pytest.mark.parametrize("status", [TaskStatus.ASSIGNED, TaskStatus.PROCESSING])
def test_recalled_says_for_what_it_waits(recall: Recall, status: TaskStatus) -> None:
    answer = ask_why(replace(HELD, status=status, recall=recall), nodes=[node_state(1)])
    assert answer.sentence.startswith("node n1 was told to stop it because it")
    assert answer.sentence.endswith("; waits until it has, or its lease ends")
    assert (answer.data["cause"], answer.data["recall"]) == ("recalled", recall.word)


@pytest.mark.parametrize("status", [status for status in TaskStatus if status.is_final])
def test_final_gives_its_reason(status: TaskStatus) -> None:
    answer = ask_why(replace(TASK, status=status, ended_at=NOW, reason="parse: no title"))
    assert answer.sentence.endswith(": parse: no title")
    assert (answer.data["cause"], answer.data["reason"]) == ("final", "parse: no title")


def test_final_without_a_reason() -> None:
    assert ask_why(replace(TASK, status=TaskStatus.COMPLETED, ended_at=NOW)).sentence == "it is completed"
