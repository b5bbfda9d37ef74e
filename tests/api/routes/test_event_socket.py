"""Who may open the event WebSocket, and what everyone else is answered."""

import pytest

from tests.api.kit import Site
from tests.api.socket_kit import UPGRADE, SocketSite


@pytest.mark.parametrize("token", [None, "Bearer", "Bearer " + "0" * 64])
async def test_without_a_valid_token_nothing_is_accepted(
    sockets: SocketSite, token: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    headers = UPGRADE if token is None else UPGRADE | {"Authorization": token}
    status, problem = await sockets.refused(headers, role=None)
    assert (status, problem["code"]) == (401, "not_authenticated")
    assert not caplog.records


@pytest.mark.parametrize("role", ["enrol", "metrics"])
async def test_other_roles_are_refused(sockets: SocketSite, role: str) -> None:
    status, problem = await sockets.refused(UPGRADE, role=role)
    assert (status, problem["code"]) == (403, "not_allowed")


async def test_another_subprotocol_is_refused(sockets: SocketSite) -> None:
    none = {name: value for name, value in UPGRADE.items() if name != "Sec-WebSocket-Protocol"}
    for headers in (none, none | {"Sec-WebSocket-Protocol": "chat, superchat"}):
        status, problem = await sockets.refused(headers)
        assert (status, problem["field"]) == (422, "Sec-WebSocket-Protocol")


async def test_a_plain_request_is_answered(site: Site, sockets: SocketSite) -> None:
    status, problem = await sockets.refused({})
    assert (status, problem["code"]) == (426, "upgrade_needed")
    assert (await site.get("/api/v1/events/ws", role=None)).status == 401


async def test_an_upgrade_elsewhere_is_an_ordinary_request(site: Site, sockets: SocketSite) -> None:
    headers = UPGRADE | {"Authorization": f"Bearer {site.tokens['viewer']}"}
    async with site._session.get(f"{sockets.url}/api/v1/queues", headers=headers) as response:
        assert response.status == 200


async def test_a_connection_counts_as_unidentified_until_its_token_is_known(sockets: SocketSite) -> None:
    async with sockets.connected() as socket:
        assert (await socket.subscribe())["op"] == "subscribed"
        assert sockets.guard.unidentified == 0
        assert sockets.site.master.metrics.event_streams == 1
    await sockets.site.until(lambda: _is_zero(sockets))
    await sockets.refused(UPGRADE, role=None)
    await sockets.site.until(lambda: _has_no_peers(sockets))


async def _is_zero(sockets: SocketSite) -> bool:
    return sockets.site.master.metrics.event_streams == 0


async def _has_no_peers(sockets: SocketSite) -> bool:
    return sockets.guard.unidentified == 0


async def test_connections_are_counted_by_their_route(site: Site, sockets: SocketSite) -> None:
    async with sockets.connected():
        pass
    await sockets.refused(UPGRADE, role="enrol")
    assert sorted(site.master.metrics.requests.list_counts()) == [
        ("/api/v1/events/ws", "GET", "1xx", 1),
        ("/api/v1/events/ws", "GET", "4xx", 1),
    ]
