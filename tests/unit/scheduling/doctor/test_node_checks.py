"""Checks of nodes: each says its sentence when its cause is there."""

from dataclasses import replace

from crawlfleet.model.node import Measurement
from crawlfleet.model.status import NodeStatus
from crawlfleet.scheduling.doctor.findings import FindingSeverity
from crawlfleet.scheduling.doctor.snapshot import NodePart, WorkPart
from tests.unit.scheduling.doctor.doctor_kit import DAY_MS, NOW, node, only_problem, problems

IDLE = Measurement(cpu=0.1, memory=0.3, running=4)


def test_a_node_that_opens_many_sessions_is_told() -> None:
    finding = only_problem("D16", nodes=NodePart([node(1), node(2)], {1: 7, 2: 12, 99: 50}))
    assert finding.sentence == "node n2 opened 12 sessions in the last hour, and 1 other node did alike"
    assert "crawlfleet node show node-0000000000000002" in finding.hint
    assert problems("D16", nodes=NodePart([node(1)], {1: 6})) == []


def test_nodes_that_are_gone_for_days_are_a_note() -> None:
    gone = [node(number, is_session_open=False, renewed_at=NOW - 4 * DAY_MS) for number in range(1, 8)]
    finding = only_problem("D17", nodes=NodePart([*gone, node(9)]))
    assert finding.severity is FindingSeverity.NOTE
    assert finding.sentence == "7 nodes have been gone for days: n1, n2, n3, n4, n5 and 2 more"
    short = node(1, is_session_open=False, renewed_at=NOW - 2 * DAY_MS)
    assert problems("D17", nodes=NodePart([short])) == []


def test_full_slots_on_idle_processors_are_a_note_while_tasks_wait() -> None:
    finding = only_problem("D18", nodes=NodePart([node(1, measurement=IDLE), node(2)]))
    assert finding.sentence == "all slots are taken at less than 25% CPU on 1 node (n1) while 3 tasks wait"
    assert finding.hint == "crawlfleet node slots n1 auto"
    nodes = NodePart([node(1, measurement=IDLE)])
    assert problems("D18", nodes=nodes, work=WorkPart([])) == [], "nothing waits"
    assert problems("D18", nodes=NodePart([replace(node(1, measurement=IDLE), follows_load=True)])) == []
    busy = Measurement(cpu=0.9, memory=0.3, running=4)
    assert problems("D18", nodes=NodePart([node(1, measurement=busy)])) == []
    full = Measurement(cpu=0.1, memory=0.95, running=4)
    assert problems("D18", nodes=NodePart([node(1, measurement=full)])) == [], "its memory is the limit"


def test_full_memory_is_told_with_what_died_of_it() -> None:
    full = Measurement(memory=0.95, ends=(("web_crawl", 10, 2), ("echo", 5, 1)))
    finding = only_problem("D19", nodes=NodePart([node(1, measurement=full), node(2)]))
    assert finding.sentence == (
        "more than 90% of the memory is used on 1 node: n1; 3 executions died with their process there"
    )
    away = node(1, measurement=full, status=NodeStatus.OFFLINE)
    assert problems("D19", nodes=NodePart([away])) == [], "what it measured last is of no use"
