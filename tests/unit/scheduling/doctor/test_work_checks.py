"""Checks of work that waits: each says its sentence when its cause is there."""

from crawlfleet.model.node import Cluster
from crawlfleet.model.status import ClusterStatus
from crawlfleet.scheduling.doctor.findings import FindingSeverity
from crawlfleet.scheduling.doctor.snapshot import HistoryPart, NodePart, QueuePause, TypeFigures, WorkPart
from tests.unit.scheduling.doctor.doctor_kit import HOUR_MS, NOW, node, only_problem, problems, waiting

BROWSER = (("browser", True),)


def test_what_no_node_has_is_told_with_what_to_install() -> None:
    work = WorkPart([waiting(5, capabilities=BROWSER), waiting(2, task_type="shop"), waiting()])
    browser, shop = problems("D20", work=work)
    assert browser.sentence == "5 tasks want the capability browser, which no node has"
    assert "playwright install" in browser.hint
    assert shop.sentence == "2 tasks want the type shop, which no node has"
    assert "--executors" in shop.hint
    assert problems("D21", work=work) == [], "told once"


def test_what_one_node_has_is_in_order() -> None:
    nodes = NodePart([node(1), node(2, capabilities=BROWSER)])
    work = WorkPart([waiting(5, capabilities=BROWSER)])
    assert problems("D20", work=work, nodes=nodes) == problems("D21", work=work, nodes=nodes) == []


def test_tasks_without_any_node_are_told() -> None:
    finding = only_problem("D20", nodes=NodePart([]))
    assert finding.sentence == "3 tasks wait and no node has joined"
    assert problems("D20", nodes=NodePart([]), work=WorkPart([])) == []
    assert problems("D21", nodes=NodePart([])) == []


def test_tasks_that_no_node_can_ever_run_are_told_by_filter() -> None:
    work = WorkPart([waiting(5, cluster="eu"), waiting(2, node_type="gpu")])
    finding = only_problem("D21", work=work)
    assert finding.sentence == "7 tasks that no node can ever run, by filter: wrong_cluster 5, wrong_node_type 2"
    assert problems("D20", work=work) == []


def test_tasks_whose_nodes_are_all_away_are_told() -> None:
    nodes = NodePart([node(1, is_session_open=False), node(2, task_types=("other",))])
    assert only_problem("D21", nodes=nodes).sentence == "3 tasks wait for nodes that are all away"


def test_a_paused_queue_with_tasks_is_told_with_who_paused_it() -> None:
    work = WorkPart([waiting(9)], paused={"default": QueuePause(NOW - 2 * HOUR_MS, "ann"), "empty": QueuePause()})
    finding = only_problem("D22", work=work)
    assert finding.sentence == "queue default is paused for 2 hours by ann, with 9 tasks waiting"
    assert finding.hint == "crawlfleet queue resume default"
    assert only_problem("D22", work=WorkPart([waiting(1)], paused={"default": QueuePause()})).sentence == (
        "queue default is paused, with 1 task waiting"
    )


def test_an_inactive_cluster_that_tasks_wait_for_is_told() -> None:
    cluster = Cluster("eu", ClusterStatus.INACTIVE, changed_at=NOW - HOUR_MS)
    finding = only_problem("D22", work=WorkPart([waiting(4, cluster="eu")], clusters=[cluster]))
    assert finding.sentence == "cluster eu is inactive for 1 hour, with 4 tasks waiting for it"
    assert problems("D22", work=WorkPart([waiting()], clusters=[cluster])) == []


def test_long_waits_are_told_by_priority() -> None:
    work = WorkPart(
        [
            waiting(priority=5, age_ms=2 * HOUR_MS),
            waiting(priority=5, age_ms=3 * HOUR_MS, project="news"),
            waiting(priority=9, age_ms=HOUR_MS // 2),
            waiting(priority=1, age_ms=HOUR_MS),
        ]
    )
    assert [finding.sentence for finding in problems("D23", work=work)] == [
        "the oldest ready task of priority 9 was submitted 30 minutes ago",
        "the oldest ready task of priority 5 was submitted 3 hours ago",
    ]


def test_what_waits_in_a_paused_queue_is_no_long_wait() -> None:
    assert problems("D23", work=WorkPart([waiting(age_ms=9 * HOUR_MS)], paused={"default": QueuePause()})) == []


def test_a_timeout_that_leaves_no_time_is_told() -> None:
    history = HistoryPart({"echo": TypeFigures(100, 3, 250_000.0, 280_000.0)}, 3_600)
    finding = only_problem("D24", history=history)
    assert finding.sentence == "p95 of type echo is 83% of its timeout of 300 s (3 timeouts in the last day)"
    assert finding.hint.startswith("a timeout of 420 s")
    assert problems("D24", history=history, work=WorkPart([])) == [], "of 3600 s it is little"
    few = HistoryPart({"echo": TypeFigures(19, 0, 299_000.0, 299_000.0)}, 300)
    assert problems("D24", history=few) == [], "too few ends to say"
    assert problems("D24", history=HistoryPart({"echo": TypeFigures(50, 0, None, None)}, 300)) == []


def test_a_project_that_has_nearly_all_slots_is_a_note_while_others_wait() -> None:
    lanes = [waiting(7, project="news"), waiting(2, project="shop")]
    finding = only_problem("D25", work=WorkPart(lanes, running_by_project={"shop": 18, "news": 2}))
    assert finding.severity is FindingSeverity.NOTE
    assert finding.sentence == "project shop has 90% of the slots in use while tasks of others wait: news (7)"
    assert problems("D25", work=WorkPart(lanes[1:], running_by_project={"shop": 20})) == [], "nobody else waits"
    assert problems("D25", work=WorkPart(lanes, running_by_project={"shop": 9})) == [], "too few to say"
    assert problems("D25", work=WorkPart(lanes, running_by_project={})) == []
