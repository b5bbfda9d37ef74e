"""The event WebSocket: the events of the stream, for several filters over one connection."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

from crawlfleet.api.http.auth import allow, require_principal
from crawlfleet.api.http.errors import problem_response
from crawlfleet.api.http.responses import ResponseSpec
from crawlfleet.api.http.route_table import RouteTable
from crawlfleet.api.http.services import get_services
from crawlfleet.api.routes import PREFIX
from crawlfleet.api.views.event_socket import EventSocket
from crawlfleet.errors import InvalidInput
from crawlfleet.model.principal import Principal, Role
from crawlfleet.wire.event_socket import SUBPROTOCOL

routes = RouteTable("events", PREFIX)

_NO_WEBSOCKET = ResponseSpec({"application/problem+json": {"type": "object"}}, "The request is not a WebSocket's.")


@routes.get(
    "/events/ws",
    ResponseSpec(None, "A WebSocket of subprotocol `crawlfleet.v1` is open."),
    status=101,
    other_responses={426: _NO_WEBSOCKET},
    name="websocket",
)
async def refuse_plain_request(_request: Request, _: Principal = allow(Role.VIEWER)) -> Response:
    """Events over a WebSocket, with several subscriptions. In go `{"op":"subscribe","id","kinds":[],"task","node",
    "after"}` and `{"op":"unsubscribe","id"}`; out come events, each with its `sub`. The guide has all messages."""
    headers = {"Upgrade": "websocket", "Connection": "Upgrade"}
    return problem_response(426, "upgrade_needed", "this address is a WebSocket's", headers=headers)


async def serve_event_socket(websocket: WebSocket) -> None:
    # FastAPI notes the route of HTTP requests only; requests are counted by it.
    websocket.scope["route"] = EVENT_SOCKET
    await require_principal(websocket, Role.VIEWER)
    if SUBPROTOCOL not in websocket.scope["subprotocols"]:
        raise InvalidInput(f"the subprotocol {SUBPROTOCOL} is needed", field="Sec-WebSocket-Protocol")
    await EventSocket(websocket, get_services(websocket)).serve()


EVENT_SOCKET = WebSocketRoute(f"{PREFIX}/events/ws", serve_event_socket)
