"""One open event WebSocket: its subscriptions, what it reads of the caller, and what it sends.

All subscriptions of a connection are served by one task. Those that stand at the same place of the log share a read, so
that a connection costs as much as an event stream however many subscriptions it has, and one that reads old events does
not hold up those that wait for new ones.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect

from crawlfleet.api.http.services import Services
from crawlfleet.api.http.shutdown import is_stopping
from crawlfleet.api.views.events import EventFilter, EventView, event_view, make_event_filter
from crawlfleet.control.nodes.heartbeat_feed import READ_S, SeenRenewals
from crawlfleet.errors import Conflict, CrawlfleetError, InvalidInput, OverLimit, Unavailable
from crawlfleet.model.event import Event
from crawlfleet.wire.event_socket import (
    MAX_NUMBER,
    SUBPROTOCOL,
    SUBSCRIPTIONS,
    Gap,
    Position,
    SocketError,
    Subscribe,
    Subscribed,
    SubscriptionEvent,
    Unsubscribe,
    Unsubscribed,
    find_message_id,
    read_caller_message,
)

STALL_S = 10.0
"""Time in seconds for which more than the protocol's limit of bytes may be unsent."""
POSITION_S = 15.0
"""Interval in seconds at which a subscription that gets no events learns how far it is."""
STOPPING = 1012
TRY_LATER = 1013

_encode = msgspec.json.Encoder().encode


class _EndError(Exception):
    """Ends the connection with a code and a reason."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class _StallError(_EndError):
    """The caller does not read; a close message would wait behind the events."""


class Subscription:
    def __init__(self, name: str, wanted: EventFilter, number: int, now_mono: float) -> None:
        self.name = name
        self.wanted = wanted
        self.number = number
        """Number of the last event of the log that was looked at."""
        self.sent_at = now_mono
        self.is_over = False


class EventSocket:
    def __init__(self, websocket: WebSocket, services: Services) -> None:
        self._websocket = websocket
        self._services = services
        self._feed = services.event_feed
        self._monotonic = services.clock.monotonic
        self._subscriptions: dict[str, Subscription] = {}
        self._is_changed = asyncio.Event()
        self._seen: SeenRenewals | None = None

    async def serve(self) -> None:
        """Accept the connection and serve it to its end."""
        await self._websocket.accept(subprotocol=SUBPROTOCOL)
        self._services.metrics.event_streams += 1
        tasks = [
            asyncio.create_task(work, name="event socket") for work in (self._read_messages(), self._send_messages())
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._services.metrics.event_streams -= 1
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        for error in results:
            await self._end_connection(error)

    async def _end_connection(self, error: BaseException | None) -> None:
        match error:
            case None | asyncio.CancelledError() | WebSocketDisconnect():
                return
            case _StallError():
                self._abandon(error.code, error.reason)
            case _EndError():
                with contextlib.suppress(WebSocketDisconnect, RuntimeError):
                    await self._websocket.close(error.code, error.reason)
            case _:
                raise error

    def _abandon(self, code: int, reason: str) -> None:
        # A usual close would wait until the caller reads.
        abandon: Callable[[int, str], None] = self._websocket.scope["state"]["abandon_socket"]
        abandon(code, reason)

    # Messages of the caller

    async def _read_messages(self) -> None:
        while True:
            message = await self._websocket.receive()
            if message["type"] == "websocket.disconnect":
                return
            text = message.get("text")
            await self._handle_message(message.get("bytes") or b"" if text is None else text)

    async def _handle_message(self, text: str | bytes) -> None:
        try:
            if isinstance(text, bytes):
                raise InvalidInput("a text message, not a binary one", field="message")
            match read_caller_message(text):
                case Subscribe() as message:
                    await self._subscribe(message)
                case Unsubscribe() as message:
                    await self._unsubscribe(message.id)
        except Unavailable as exc:
            await self._send(SocketError(exc.code, exc.told, find_message_id(text)))
        except CrawlfleetError as exc:
            detail = exc.detail if isinstance(exc, InvalidInput) else str(exc)
            await self._send(SocketError(exc.code, detail, find_message_id(text), getattr(exc, "field", None)))

    async def _subscribe(self, message: Subscribe) -> None:
        if message.id in self._subscriptions:
            raise Conflict(f"a subscription {message.id!r} is open; unsubscribe it first")
        if len(self._subscriptions) >= SUBSCRIPTIONS:
            raise OverLimit(f"a connection has at most {SUBSCRIPTIONS} subscriptions")
        wanted = await make_event_filter(
            self._services.node_reader, message.kinds, message.task, message.node, kind_field="kinds"
        )
        last = await self._feed.last_event()
        if message.after is not None and message.after > last:
            raise InvalidInput(f"is in the future: the last event is {last}", field="after")
        number = last if message.after is None else message.after
        await self._send(Subscribed(message.id, number))
        self._subscriptions[message.id] = Subscription(message.id, wanted, number, self._monotonic())
        self._is_changed.set()

    async def _unsubscribe(self, name: str) -> None:
        subscription = self._subscriptions.pop(name, None)
        if subscription is None:
            raise InvalidInput(f"no subscription {name!r} is open", field="id")
        subscription.is_over = True
        await self._send(Unsubscribed(name))

    # Events

    async def _send_messages(self) -> None:
        try:
            while not is_stopping(self._websocket):
                self._is_changed.clear()
                is_moved = await self._send_events()
                await self._send_heartbeats()
                await self._send_positions()
                if not is_moved:
                    await self._wait_for_change()
        except Unavailable as exc:
            raise _EndError(TRY_LATER, f"the store does not answer; resume after {self._position}") from exc
        raise _EndError(STOPPING, f"the master stops; resume after {self._position}")

    @property
    def _position(self) -> int:
        """Number after which no subscription misses anything."""
        return min((subscription.number for subscription in self._subscriptions.values()), default=0)

    async def _send_events(self) -> bool:
        """Send the next events of each subscription; return whether there were any, wanted or not."""
        by_number: dict[int, list[Subscription]] = {}
        for subscription in self._subscriptions.values():
            by_number.setdefault(subscription.number, []).append(subscription)
        is_moved = False
        for number, subscriptions in by_number.items():
            events = await self._feed.list_events(number)
            if not events:
                continue
            is_moved = True
            if events[0].number > number + 1:
                for subscription in subscriptions:
                    await self._send_to(subscription, Gap(subscription.name, events[0].number))
            for event in events:
                await self._send_event(event, subscriptions)
        return is_moved

    async def _send_event(self, event: Event, subscriptions: Sequence[Subscription]) -> None:
        view = None
        for subscription in subscriptions:
            if subscription.wanted.matches_event(event):
                view = view or event_view(event)
                await self._send_to(subscription, _subscription_event(subscription, view))
            subscription.number = event.number

    async def _send_heartbeats(self) -> None:
        listening = [each for each in self._subscriptions.values() if each.wanted.wants_heartbeats]
        if not listening:
            self._seen = None
            return
        heartbeats, self._seen = await self._services.heartbeat_feed.newer_heartbeats(self._seen)
        for event in heartbeats:
            view = event_view(event)
            for subscription in listening:
                if subscription.wanted.matches_event(event):
                    await self._send_to(subscription, _subscription_event(subscription, view))

    async def _send_positions(self) -> None:
        now_mono = self._monotonic()
        for subscription in list(self._subscriptions.values()):
            if now_mono - subscription.sent_at >= POSITION_S:
                await self._send_to(subscription, Position(subscription.name, subscription.number))

    async def _wait_for_change(self) -> None:
        """Wait for an event, for a new subscription, or until the next message is due."""
        has_heartbeats = any(each.wanted.wants_heartbeats for each in self._subscriptions.values())
        number = self._position if self._subscriptions else MAX_NUMBER
        waiting = asyncio.create_task(self._feed.wait_for_event(number, READ_S if has_heartbeats else POSITION_S))
        changed = asyncio.create_task(self._is_changed.wait())
        try:
            await asyncio.wait({waiting, changed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (waiting, changed):
                task.cancel()
            await asyncio.gather(waiting, changed, return_exceptions=True)

    async def _send_to(self, subscription: Subscription, message: msgspec.Struct) -> None:
        if not subscription.is_over:
            await self._send(message)
            subscription.sent_at = self._monotonic()

    async def _send(self, message: Any) -> None:
        sent = {"type": "websocket.send", "text": _encode(message).decode()}
        try:
            async with asyncio.timeout(STALL_S):
                await self._websocket.send(sent)
        except TimeoutError:
            raise _StallError(TRY_LATER, f"read too slowly; resume after {self._position}") from None


def _subscription_event(subscription: Subscription, view: EventView) -> SubscriptionEvent:
    return SubscriptionEvent(
        sub=subscription.name, number=view.number, happened_at=view.at, kind=view.kind, data=view.data
    )
