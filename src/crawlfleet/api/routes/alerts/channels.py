"""Channels of notices: set, tried out, removed. Their secrets go in and never come out."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from crawlfleet.api.http.auth import allow, write_audit_entry
from crawlfleet.api.http.parameters import Body, Text
from crawlfleet.api.http.responses import empty_response, json_response
from crawlfleet.api.http.route_table import RouteTable
from crawlfleet.api.http.services import TheServices
from crawlfleet.api.routes import PREFIX
from crawlfleet.api.views.alerts import (
    ChannelList,
    ChannelView,
    DeliveryView,
    LanguageWord,
    channel_kind_view,
    channel_view,
    delivery_view,
)
from crawlfleet.model import limits
from crawlfleet.model.notice import Language
from crawlfleet.model.principal import Principal, Role

routes = RouteTable("alert-channels", PREFIX)

FIELD_CHARS = 4_000
ChannelName = Annotated[Text, Path(min_length=1, max_length=limits.LABEL_CHARS)]
FieldName = Annotated[Text, Field(max_length=limits.LABEL_CHARS)]
FieldValue = Annotated[Text, Field(max_length=FIELD_CHARS)]


class ChannelBody(Body):
    kind: Annotated[Text, Field(max_length=limits.LABEL_CHARS, examples=["dingtalk"])]
    fields: Annotated[dict[FieldName, FieldValue], Field(max_length=20)] = Field(default_factory=dict)
    """What the kind needs; stars in place of a secret leave the stored one."""
    language: LanguageWord = "en"
    is_enabled: bool = True


@routes.get("/alerts/channels", ChannelList)
async def list_channels(services: TheServices, _: Principal = allow(Role.VIEWER)) -> Response:
    """The channels with how they fare, and the kinds that there are with their fields."""
    channels = [channel_view(channel) for channel in await services.alert_channels.list_channels()]
    kinds = [channel_kind_view(kind) for kind in services.alert_channels.kinds.values()]
    return json_response(ChannelList(channels, kinds))


@routes.get("/alerts/channels/{name}", ChannelView, name="show")
async def show_channel(name: ChannelName, services: TheServices, _: Principal = allow(Role.VIEWER)) -> Response:
    return json_response(channel_view(await services.alert_channels.get_channel(name)))


@routes.put("/alerts/channels/{name}", ChannelView, name="put")
async def put_channel(
    request: Request,
    name: ChannelName,
    body: ChannelBody,
    services: TheServices,
    principal: Principal = allow(Role.ADMIN),
) -> Response:
    """Add a channel, or replace it. What could not be delivered to it is tried again at once."""
    channel = await services.alert_channels.put_channel(
        name, body.kind, body.fields, Language(body.language), body.is_enabled, principal.name
    )
    details = {"kind": body.kind, "fields": sorted(body.fields), "is_enabled": body.is_enabled}
    await write_audit_entry(request, principal, "alert_channel.put", name, details)
    return json_response(channel_view(channel))


@routes.delete("/alerts/channels/{name}", status=204, name="drop")
async def remove_channel(
    request: Request, name: ChannelName, services: TheServices, principal: Principal = allow(Role.ADMIN)
) -> Response:
    """Remove a channel with what waits for it. 422 while a rule names it."""
    await services.alert_channels.remove_channel(name)
    await write_audit_entry(request, principal, "alert_channel.delete", name)
    return empty_response()


@routes.post("/alerts/channels/{name}:test", DeliveryView, name="test")
async def test_channel(
    request: Request, name: ChannelName, services: TheServices, principal: Principal = allow(Role.OPERATOR)
) -> Response:
    """Send a test notice now; the answer has the service's own words, whether it was delivered or not."""
    delivery = await services.alert_channels.test_channel(name, principal.name)
    await write_audit_entry(request, principal, "alert_channel.test", name, {"is_delivered": delivery.is_delivered})
    return json_response(delivery_view(delivery))
