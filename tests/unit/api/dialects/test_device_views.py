"""Words of the device dialect for the status of nodes."""

from __future__ import annotations

import pytest

from crawlfleet.api.dialects.device_views import DEVICE_WORDS, device_name, device_slots, device_view, device_word
from crawlfleet.control.nodes.node_reader import NodeReport
from crawlfleet.model.ids import node_text
from crawlfleet.model.node import Measurement, Node, NodeDescription
from crawlfleet.model.status import NodeStatus


def report(*, running: int = 0, **description: object) -> NodeReport:
    described = NodeDescription(**{"name": "n", "slots": 4, **description})  # type: ignore[arg-type]
    node = Node(7, described, NodeStatus.ONLINE, is_session_open=True, measurement=Measurement(cpu=0.5))
    return NodeReport(node, 0 if described.is_pull_only else 2, running, None, False)


@pytest.mark.parametrize(
    ("status", "running", "word"),
    [
        (NodeStatus.PENDING, 0, "offline"),
        (NodeStatus.ONLINE, 1, "online"),
        (NodeStatus.ONLINE, 2, "busy"),
        (NodeStatus.MAINTENANCE, 2, "maintenance"),
        (NodeStatus.OFFLINE, 0, "offline"),
        (NodeStatus.UNRESPONSIVE, 0, "timeout"),
    ],
)
def test_every_status_has_a_word(status: NodeStatus, running: int, word: str) -> None:
    assert device_word(status, running=running, slots=2) == word
    assert word in DEVICE_WORDS


def test_a_device_without_slots_is_not_busy() -> None:
    assert device_word(NodeStatus.ONLINE, running=0, slots=0) == "online"


def test_a_device_that_pulls_shows_the_slots_it_declared() -> None:
    assert device_slots(report(is_pull_only=True)) == 4
    assert device_slots(report()) == 2


def test_a_node_without_a_device_id_goes_by_its_own() -> None:
    assert device_name(report().node) == node_text(7)
    assert device_name(report(device_id="till").node) == "till"


def test_a_view_shows_what_was_measured_last() -> None:
    view = device_view(report(running=4, is_pull_only=True, dns_name="till.example"), 10.0)
    assert (view.cpu_usage, view.status, view.current_tasks, view.host) == (0.5, "busy", 4, "till.example")
    assert (view.heartbeat_interval, view.last_heartbeat) == (10.0, None)
