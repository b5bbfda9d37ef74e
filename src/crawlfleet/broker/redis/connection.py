"""The link of one master to Redis: it is up, or away and reconnecting. No error of Redis gets past it.

While it is up, calls go through a `Pipeline`. The first call that fails, is refused or is not answered in time ends
that: every waiting call gets `Away` at once, and so does every later one, without a wait, until the keeper has
connected again, has checked that this Redis belongs to the installation and can be written to, and has subscribed. All
of that is done before the link is up, so that a Redis that is loading, full, or only a replica stays away instead of
alternating between up and away.

The generation is a value in Redis that is lost with the data of Redis. A master that was away writes a new one when it
is back: the ids it offered meanwhile are in no index, and the leader should read the store again.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import structlog
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError

from crawlfleet.broker.redis import scripts
from crawlfleet.broker.redis.connection_factory import ConnectionFactory, Word, call_commands
from crawlfleet.broker.redis.listener import Handler, Listener
from crawlfleet.broker.redis.pipeline import Pipeline
from crawlfleet.broker.redis.scripts import Script
from crawlfleet.errors import ConfigError, Unavailable
from crawlfleet.model.instants import Instant

KEPT_S = 3_600
"""Lifetime of a key that no master touches."""
CLAIMED_S = 7 * 86_400
"""Lifetime of an installation's claim on a Redis that it does not use."""
BEAT_S = 1.0
STEADY_S = 5.0
"""Uptime after which a broken link is tried again at once; a link that was up for less backs off."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0

OWNER_KEY = "crawlfleet:owner"

log = structlog.get_logger()

OnLinkChange = Callable[[bool], Awaitable[None]]
OnChange = Callable[[bool, str], None]


class Away(Unavailable):
    """Redis is away, and the caller uses the local part instead. This error never leaves the broker."""


@dataclass(frozen=True, slots=True)
class LinkState:
    is_up: bool
    since: Instant
    last_error: str = ""
    """Message of the newest error, also when it is over."""


class Link:
    def __init__(self, factory: ConnectionFactory, installation: str, on_change: OnChange | None = None) -> None:
        self._factory = factory
        self._installation = installation
        self._on_change = on_change
        self._handlers: dict[str, Handler] = {}
        self._on_link_change: OnLinkChange | None = None
        self._pipeline: Pipeline | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._has_tried = asyncio.Event()
        self._refusal: ConfigError | None = None
        self._was_away = False
        self.state = LinkState(False, _now())

    def scoped_key(self, name: str) -> str:
        # The braces (a hash tag) keep all keys of an installation on one server of a Redis Cluster.
        return f"crawlfleet:{{{self._installation}}}:{name}"

    def on_message(self, channel: str, handler: Handler) -> None:
        """Set the handler of a channel; to be called before `start`."""
        self._handlers[channel] = handler

    async def start(self, on_link_change: OnLinkChange) -> None:
        """Start the keeper, and return after its first attempt. A Redis of another installation and a wrong password
        are refused; a Redis that is away is awaited in the background."""
        self._on_link_change = on_link_change
        self._keeper = asyncio.create_task(self._keep_connected(), name="redis link")
        try:
            await self._has_tried.wait()
            if self._refusal is not None:
                raise self._refusal
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
            self._keeper = None
            self.state = LinkState(False, _now(), "closed")
            self._break_off()

    # -- calls

    async def call_command(self, *command: Word) -> Any:
        return await self._live_pipeline().call_command(*command)

    def send_command(self, *command: Word) -> None:
        """Send a command without waiting for the answer; do nothing while Redis is away."""
        if self._pipeline is not None:
            self._pipeline.send_command(*command)

    async def call_script(self, script: Script, key: str, *arguments: Word) -> Any:
        return await self._live_pipeline().call_script(script, key, *arguments)

    def send_script(self, script: Script, key: str, *arguments: Word) -> None:
        """Run a script without waiting for the answer; do nothing while Redis is away."""
        if self._pipeline is not None:
            self._pipeline.send_script(script, key, *arguments)

    async def load_generation(self) -> str:
        key = self.scoped_key("generation")
        while (generation := await self.call_command("GETEX", key, "EX", KEPT_S)) is None:
            await self.call_command("SET", key, uuid4().hex, "NX", "EX", KEPT_S)
        return str(generation.decode())

    def _live_pipeline(self) -> Pipeline:
        if self._pipeline is None:
            raise Away
        return self._pipeline

    # -- the keeper

    async def _keep_connected(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            began = time.monotonic()
            try:
                await self._hold_connection()
            except Exception as exc:
                await self._go_away(exc)
            if time.monotonic() - began >= STEADY_S:
                pause_s = _FIRST_PAUSE_S
            # The pause is random, so that masters that lost Redis together do not reconnect together.
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _hold_connection(self) -> None:
        """Hold the link from the first connection to its loss, which is raised."""
        timeout_s = self._factory.pool_timeout_s
        async with asyncio.timeout(timeout_s) as limit, self._factory.open_connections(2) as (commands, messages):
            await self._prepare_redis(commands)
            listener = Listener(messages, self._handlers)
            await listener.subscribe()
            limit.reschedule(None)
            pipeline = Pipeline(commands)
            try:
                async with asyncio.TaskGroup() as group:
                    pipeline.start_tasks(group)
                    group.create_task(listener.handle_messages())
                    group.create_task(self._renew_claim(pipeline, listener))
                    await self._come_up(pipeline)
            except ExceptionGroup as failed:
                raise failed.exceptions[0] from None

    async def _prepare_redis(self, connection: AbstractConnection) -> None:
        claim = scripts.CLAIM.source
        (owner,) = await call_commands(connection, ("EVAL", claim, 1, OWNER_KEY, self._installation, CLAIMED_S))
        self._check_owner(owner)
        generation: list[Word] = ["SET", self.scoped_key("generation"), uuid4().hex, "EX", KEPT_S]
        if not self._was_away:
            generation.append("NX")
        await call_commands(connection, generation, *(("SCRIPT", "LOAD", script.source) for script in scripts.ALL))

    async def _renew_claim(self, pipeline: Pipeline, listener: Listener) -> None:
        """Renew the claim at every beat, and detect a lost or foreign Redis even while no caller sends a command."""
        while True:
            await asyncio.sleep(BEAT_S)
            await listener.ping()
            self._check_owner(await pipeline.call_script(scripts.CLAIM, OWNER_KEY, self._installation, CLAIMED_S))

    def _check_owner(self, owner: bytes) -> None:
        name = owner.decode("utf-8", "replace")
        if name != self._installation:
            raise ConfigError(
                f"broker: {self._factory.display_url} belongs to the installation {name}, "
                f"and this one is {self._installation}: "
                f"use another database number, such as {self._factory.other_database()} "
                f"(if {name} is no more, delete the key {OWNER_KEY} there)"
            )

    # -- changes

    async def _come_up(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        away_s = (_now() - self.state.since) / 1000
        self.state = LinkState(True, _now(), self.state.last_error)
        assert self._on_link_change is not None
        await self._on_link_change(True)
        self._has_tried.set()
        if self._was_away:
            log.info("redis_back", address=self._factory.display_url, away_s=round(away_s, 1))
            self._report_change(f"{self._factory.display_url} is back after {away_s:.1f} s")

    async def _go_away(self, exc: Exception) -> None:
        reason = self._factory.describe_failure(exc)
        is_change = self.state.is_up or not self._has_tried.is_set()
        since = _now() if is_change else self.state.since
        self.state = LinkState(False, since, reason)
        if is_change:
            assert self._on_link_change is not None
            await self._on_link_change(False)
        self._break_off()
        if not self._has_tried.is_set() and (config_error := self._factory.config_error(exc)) is not None:
            self._refusal = config_error
        elif is_change:
            is_known = isinstance(exc, RedisError | OSError | ConfigError)
            log.warning("redis_away", reason=reason, exc_info=None if is_known else exc)
            self._report_change(reason)
        self._was_away = True
        self._has_tried.set()

    def _break_off(self) -> None:
        """End the waiting calls with `Away`. Call it only after the local index was emptied: their callers go on with
        it."""
        pipeline, self._pipeline = self._pipeline, None
        if pipeline is not None:
            pipeline.break_off(Away)

    def _report_change(self, reason: str) -> None:
        if self._on_change is None:
            return
        try:
            self._on_change(self.state.is_up, reason)
        except Exception:
            log.exception("redis_change_not_told")


def _now() -> Instant:
    return time.time_ns() // 1_000_000
