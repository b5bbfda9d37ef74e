"""Which nodes are taken for departed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.control.nodes.departed_nodes import AWAY, departed_nodes, last_seen
from crawlfleet.model.node import Node, NodeDescription
from crawlfleet.model.status import NodeStatus

NODES = st.builds(
    Node,
    id=st.integers(1, 1_000),
    description=st.just(NodeDescription(name="n", slots=1)),
    status=st.sampled_from(NodeStatus),
    renewed_at=st.none() | st.integers(0, 100),
    created_at=st.integers(0, 100),
)


@given(nodes=st.lists(NODES, max_size=20), now=st.integers(0, 200), gone_for=st.integers(0, 100))
def test_only_nodes_that_are_away_and_silent_for_as_long(nodes: list[Node], now: int, gone_for: int) -> None:
    gone = departed_nodes(nodes, now, gone_for)
    assert all(node.status in AWAY and now - last_seen(node) >= gone_for for node in gone)
    assert [last_seen(node) for node in gone] == sorted(last_seen(node) for node in gone)
    assert all(node.status not in AWAY or now - last_seen(node) < gone_for for node in nodes if node not in gone)


def test_a_node_that_never_opened_a_session_was_seen_when_it_joined() -> None:
    node = Node(id=1, description=NodeDescription(name="n", slots=1), status=NodeStatus.OFFLINE, created_at=5)
    assert last_seen(node) == 5
