"""Joining: a node tells a master what it is, and gets its id and its own secret.

It registers once, with an enrol token. What is new about it later it announces with its own secret, which it keeps:
that costs no use of a token, and an answer that gets lost locks nobody out.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import msgspec
import structlog
from yarl import URL

from crawlfleet.errors import ConfigError, Conflict, CrawlfleetError, InvalidInput, NotAllowed, Unavailable
from crawlfleet.execution.agent.identity import Identity, IdentityFile, short_hash
from crawlfleet.execution.agent.sync.http_calls import call_master
from crawlfleet.ports.transport import MessageTooLarge

log = structlog.get_logger()

CALL_S = 15.0
FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 0.25, 10.0
TOKEN_HINT = "make a new one: crawlfleet token create --role enrol"


class Registered(msgspec.Struct):
    node_id: str
    secret: str | None
    """None: the one it asked with is its own."""
    ignored_types: Mapping[str, str] = {}
    """Task types whose schemas the masters did not take, with the reason."""


class Registration(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a node says of itself."""

    name: str
    slots: int
    task_types: Mapping[str, Mapping[str, Any]]
    capabilities: Mapping[str, Any] = {}
    resources: Mapping[str, float] = {}
    cluster: str = ""
    node_type: str = ""
    region: str = ""
    weight: float = 1.0
    description: str = ""
    device_id: str | None = None
    ip_address: str = ""
    join_key: str = ""
    machine_id: str = ""
    egress_address: str = ""
    port: int = 0


class Joiner:
    def __init__(
        self,
        directory: Path,
        masters: Sequence[str],
        session: aiohttp.ClientSession,
        rng: Random,
        enrol_token: str | None = None,
    ) -> None:
        self._file = IdentityFile(directory)
        self._masters = masters
        self._session = session
        self._rng = rng
        self._token = enrol_token

    async def join(self, registration: Registration) -> Identity:
        """The node's identity, from disk or from a master; waits for one as long as it takes."""
        identity = self._file.load()
        told = short_hash(msgspec.json.encode(registration, order="deterministic"))
        if identity.is_known and not identity.is_registering:
            if identity.told == told:
                return self._settled(identity)
            return await self._announce(identity, registration, told)
        return await self._register(identity, registration, told)

    async def join_anew(self, registration: Registration) -> Identity | None:
        """The masters do not know this node. None when nothing says that it should come back."""
        identity = self._file.load()
        is_other_token = self._token is not None and short_hash(self._token) != identity.enrolled_with
        if not is_other_token and not identity.is_registering:
            return None
        log.warning("joining_again", was=identity.node_id, why="no master knows it any more")
        told = short_hash(msgspec.json.encode(registration, order="deterministic"))
        return await self._register(Identity(join_key=identity.join_key), registration, told)

    async def _announce(self, identity: Identity, registration: Registration, told: str) -> Identity:
        """A node that is known says what is new about it. If it may not, it goes on as it was known."""
        try:
            registered = await self._asked(identity, registration, identity.secret)
        except CrawlfleetError as exc:
            log.warning("not_announced", why=str(exc))
            return self._settled(identity)
        return self._settled(msgspec.structs.replace(identity, told=_offered_mark(registered, told)))

    def _settled(self, identity: Identity) -> Identity:
        if list(identity.masters) != list(self._masters):
            identity = msgspec.structs.replace(identity, masters=list(self._masters))
        self._file.save(identity)
        return identity

    async def _register(self, identity: Identity, registration: Registration, told: str) -> Identity:
        if self._token is None:
            raise ConfigError(f"enrol_token: a node that joins for the first time needs one; {TOKEN_HINT}")
        self._file.save(msgspec.structs.replace(identity, is_registering=True))
        try:
            registered = await self._asked(identity, registration, self._token)
        except CrawlfleetError as exc:
            raise _mistake(exc) from exc
        return self._settled(
            Identity(
                identity.join_key,
                registered.node_id,
                registered.secret or self._token,
                list(self._masters),
                _offered_mark(registered, told),
                short_hash(self._token),
            )
        )

    async def _asked(self, identity: Identity, registration: Registration, bearer: str) -> Registered:
        """Raises what a master objects to; one that is away is waited for."""
        body = msgspec.json.encode(msgspec.structs.replace(registration, join_key=identity.join_key))
        failures = 0
        while True:
            url = self._masters[failures % len(self._masters)]
            try:
                answer = await call_master(
                    self._session, "POST", f"{url}/api/v1/nodes:register", bearer=bearer, body=body, within_s=CALL_S
                )
                return msgspec.json.decode(answer, type=Registered)
            except (Unavailable, msgspec.MsgspecError, UnicodeDecodeError) as exc:
                failures += 1
                backoff_s = min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2 ** min(failures - 1, 20))
                backoff_s *= 0.5 + self._rng.random()
                log.warning("master_away", master=url, error=str(exc), next_try_in_s=round(backoff_s, 1))
                await asyncio.sleep(backoff_s)


def _offered_mark(registered: Registered, told: str) -> str:
    """What the masters did not take of it is brought again at the next start: the owner of a type may be gone then."""
    if not registered.ignored_types:
        return told
    log.warning("schemas_ignored", **registered.ignored_types)
    return ""


def _mistake(exc: CrawlfleetError) -> ConfigError:
    match exc:
        case NotAllowed():
            return ConfigError(f"enrol_token: not accepted ({exc}): it is wrong, expired or used up; {TOKEN_HINT}")
        case Conflict():
            return ConfigError(f"device_id: {exc}; choose another, or use the data_dir of the node that has it")
        case InvalidInput() | MessageTooLarge():
            return ConfigError(f"the master does not accept this node: {exc}")
        case _:
            return ConfigError(f"masters: {exc}: is this the address of a crawlfleet master?")


def own_address(master: str) -> str:
    """The address this machine uses towards a master; nothing is sent to find out."""
    url = URL(master)
    try:
        family, _, _, _, target = socket.getaddrinfo(url.host, url.port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(target)
            return str(probe.getsockname()[0]).partition("%")[0]
    except OSError:
        return ""
