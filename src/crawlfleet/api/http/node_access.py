"""Resolves nodes in paths, and checks the rule that a node acts only for itself."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Annotated

from fastapi import Depends, Path
from starlette.requests import Request

from crawlfleet.api.http.auth import write_audit_entry
from crawlfleet.api.http.errors import printable_text
from crawlfleet.api.http.services import Services, TheServices
from crawlfleet.errors import InvalidInput, NotAllowed, NotFound
from crawlfleet.model import ids, limits
from crawlfleet.model.ids import NodeId, node_text
from crawlfleet.model.node import Node
from crawlfleet.model.principal import Principal, Role
from crawlfleet.wire.tasks import storage_problem


class NotItself(NotAllowed):
    field = "Authorization"


async def find_node(services: Services, text: str) -> Node:
    """Return the node of an id or of a device id. Raises NotFound, for one that was removed too."""
    try:
        node_id: NodeId | None = ids.parse_id(text, "node", field="node_id")
    except InvalidInput:
        node_id = None if storage_problem(text) else await services.node_reader.find_by_device(text)
    node = None if node_id is None else await services.node_reader.find_node(node_id)
    if node is None:
        raise NotFound(f"no node {printable_text(text)[: limits.NAME_CHARS]!r}")
    return node


async def require_own_node(request: Request, principal: Principal, node: NodeId, action: str) -> None:
    """Refuse a node that acts for another one, and write an audit entry; people's roles were checked before."""
    if principal.role is Role.NODE and principal.node != node:
        await write_audit_entry(request, principal, f"{action}.refused", node_text(node))
        raise NotItself(f"a node acts only for itself, and this secret is not that of {node_text(node)}")


def public_address(request: Request, principal: Principal) -> str:
    """The address of a node that calls itself. One that is not public may be a proxy's, and says nothing."""
    if principal.role not in (Role.ENROL, Role.NODE) or request.client is None:
        return ""
    try:
        return request.client.host if ip_address(request.client.host).is_global else ""
    except ValueError:
        return ""


async def _node_in_path(
    services: TheServices, node_id: Annotated[str, Path(description="The node's id, or its device id.")]
) -> Node:
    return await find_node(services, node_id)


KnownNode = Annotated[Node, Depends(_node_in_path)]
"""The record of the node in `{node_id}` of a path; 404 when there is none."""
