"""Nodes as a placement pass sees them, with everything in order unless a test says otherwise."""

from __future__ import annotations

from typing import Any

from crawlfleet.model.node import Measurement, Node, NodeDescription
from crawlfleet.model.status import ClusterStatus, Health, NodeStatus
from crawlfleet.scheduling.placement.filters import NodeState


def node_state(
    node_id: int = 1,
    *,
    slots: int = 4,
    held: int = 0,
    reserved: dict[str, float] | None = None,
    status: NodeStatus = NodeStatus.ONLINE,
    health: Health = Health.HEALTHY,
    is_session_open: bool = True,
    is_departing: bool = False,
    measurement: Measurement | None = None,
    cluster_status: ClusterStatus = ClusterStatus.ACTIVE,
    cluster_project: str | None = None,
    **description: Any,
) -> NodeState:
    """What is not named goes into the node's description."""
    said: dict[str, Any] = {"name": f"n{node_id}", "slots": slots, "task_types": ("web_crawl",)}
    described = NodeDescription(**said | description)
    node = Node(node_id, described, status, health, is_session_open=is_session_open, is_departing=is_departing)
    return NodeState(node, cluster_status, cluster_project, held, dict(reserved or {}), measurement)
