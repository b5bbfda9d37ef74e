"""Registration: a node sends its description to a master, and gets its id and its own secret.

It registers once, with an enrol token. Later changes are announced with its own secret, which it keeps: that uses up no
token, and a lost answer does not lock the node out.
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
from crawlfleet.execution.master_calls.http_calls import call_master
from crawlfleet.ports.transport import MessageTooLarge

log = structlog.get_logger()

CALL_S = 15.0
FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 0.25, 10.0
TOKEN_HINT = "make a new one: crawlfleet token create --role enrol"


class RegisterAnswer(msgspec.Struct):
    """A master's answer to a register call."""

    node_id: str
    secret: str | None
    """Secret of the node; None: the one it called with stays valid."""
    ignored_types: Mapping[str, str] = {}
    """Task types whose schemas the masters did not accept, with the reason."""


class RegisterRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """The description of a node, as it registers."""

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
    """Registers the node with a master and keeps its identity file."""

    def __init__(
        self,
        directory: Path,
        masters: Sequence[str],
        session: aiohttp.ClientSession,
        rng: Random,
        enrol_token: str | None = None,
        reported_masters: Sequence[str] = (),
    ) -> None:
        self._file = IdentityFile(directory)
        self._masters = masters
        self._session = session
        self._rng = rng
        self._token = enrol_token
        # An enrol token goes to configured masters only; the node's own secret goes to those that they reported too.
        self._all_masters = list(dict.fromkeys([*masters, *reported_masters]))

    async def join(self, registration: RegisterRequest) -> Identity:
        """The node's identity, from disk or from a master; waits for a master as long as it takes."""
        identity = self._file.load()
        description_hash = short_hash(msgspec.json.encode(registration, order="deterministic"))
        if identity.is_known and not identity.is_registering:
            if identity.description_hash == description_hash:
                return self._save_identity(identity)
            return await self._announce_changes(identity, registration, description_hash)
        return await self._register_node(identity, registration, description_hash)

    async def join_anew(self, registration: RegisterRequest) -> Identity | None:
        """Register again after the masters removed the node; None when it has no new token to do so."""
        identity = self._file.load()
        is_other_token = self._token is not None and short_hash(self._token) != identity.enrolled_with
        if not is_other_token and not identity.is_registering:
            return None
        log.warning("joining_again", was=identity.node_id, why="no master knows it any more")
        description_hash = short_hash(msgspec.json.encode(registration, order="deterministic"))
        return await self._register_node(Identity(join_key=identity.join_key), registration, description_hash)

    async def _announce_changes(
        self, identity: Identity, registration: RegisterRequest, description_hash: str
    ) -> Identity:
        """Announce a changed description of a registered node. When refused, the node goes on with the old one."""
        try:
            registered = await self._call_register(identity, registration, identity.secret, self._all_masters)
        except CrawlfleetError as exc:
            log.warning("not_announced", why=str(exc))
            return self._save_identity(identity)
        return self._save_identity(
            msgspec.structs.replace(identity, description_hash=_description_hash(registered, description_hash))
        )

    def _save_identity(self, identity: Identity) -> Identity:
        if list(identity.masters) != list(self._masters):
            identity = msgspec.structs.replace(identity, masters=list(self._masters))
        self._file.save(identity)
        return identity

    async def _register_node(
        self, identity: Identity, registration: RegisterRequest, description_hash: str
    ) -> Identity:
        if self._token is None:
            raise ConfigError(f"enrol_token: a node that joins for the first time needs one; {TOKEN_HINT}")
        self._file.save(msgspec.structs.replace(identity, is_registering=True))
        try:
            registered = await self._call_register(identity, registration, self._token, self._masters)
        except CrawlfleetError as exc:
            raise _config_error(exc) from exc
        return self._save_identity(
            Identity(
                identity.join_key,
                registered.node_id,
                registered.secret or self._token,
                list(self._masters),
                _description_hash(registered, description_hash),
                short_hash(self._token),
            )
        )

    async def _call_register(
        self, identity: Identity, registration: RegisterRequest, bearer: str, masters: Sequence[str]
    ) -> RegisterAnswer:
        """Call a master's register route, retried while none is available. Raises the master's objection."""
        body = msgspec.json.encode(msgspec.structs.replace(registration, join_key=identity.join_key))
        failures = 0
        while True:
            url = masters[failures % len(masters)]
            try:
                answer = await call_master(
                    self._session, "POST", f"{url}/api/v1/nodes:register", bearer=bearer, body=body, within_s=CALL_S
                )
                return msgspec.json.decode(answer, type=RegisterAnswer)
            except (Unavailable, msgspec.MsgspecError, UnicodeDecodeError) as exc:
                failures += 1
                backoff_s = min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2 ** min(failures - 1, 20))
                backoff_s *= 0.5 + self._rng.random()
                log.warning("master_away", master=url, error=str(exc), next_try_in_s=round(backoff_s, 1))
                await asyncio.sleep(backoff_s)


def _description_hash(registered: RegisterAnswer, description_hash: str) -> str:
    """The hash to store; none when a schema was not accepted, so that the node announces it again at the next start:
    the owner of the type may be gone then."""
    if not registered.ignored_types:
        return description_hash
    log.warning("schemas_ignored", **registered.ignored_types)
    return ""


def _config_error(exc: CrawlfleetError) -> ConfigError:
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
    """The address that this machine uses towards a master, determined without sending anything."""
    url = URL(master)
    try:
        family, _, _, _, address = socket.getaddrinfo(url.host, url.port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0]).partition("%")[0]
    except OSError:
        return ""
