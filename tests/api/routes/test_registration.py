"""The agent's side of joining, against the real API: what it is told, what it keeps, and what costs nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import aiohttp
import msgspec
import pytest
import structlog.testing

from crawlfleet.errors import ConfigError
from crawlfleet.execution.agent.identity import Identity, IdentityFile, short_hash
from crawlfleet.execution.agent.registration import Joiner, RegisterRequest
from crawlfleet.execution.master_calls.http_calls import open_http_session
from crawlfleet.model.node import NodeDescription
from crawlfleet.model.principal import Role
from tests.api.kit import Site

SOON_S = 10.0
WORKER = RegisterRequest(name="worker", slots=4, task_types={"echo": {"type": "object"}}, region="eu")
MOVED = msgspec.structs.replace(WORKER, region="us")


class Agent:
    """What a process keeps and is given: it may be started again with another token, or none."""

    def __init__(self, site: Site, session: aiohttp.ClientSession, folder: Path) -> None:
        self.site = site
        self.session = session
        self.file = IdentityFile(folder)

    def joiner(self, token: str | None) -> Joiner:
        return Joiner(self.file.path.parent, [self.site.url], self.session, Random(1), token)

    async def join(self, registration: RegisterRequest, token: str | None = None) -> Identity:
        identity = await asyncio.wait_for(self.joiner(token).join(registration), SOON_S)
        assert self.file.load() == identity
        return identity

    async def enrolment(self, uses: int = 1) -> str:
        return (await self.site.master.tokens.create_token(Role.ENROL, name="e", by="tests", uses=uses)).secret

    async def region(self, identity: Identity) -> str:
        """As the master knows it; asked for with the secret that the node keeps."""
        answer = await self.site.get(f"/api/v1/nodes/{identity.node_id}", token=identity.secret)
        assert answer.status == 200, answer.content
        return str(answer.json["region"])

    async def uses_left(self) -> list[int | None]:
        return [token.uses_left for token in await self.site.master.tokens.list_tokens() if token.name == "e"]


@pytest.fixture
async def agent(site: Site, tmp_path: Path) -> AsyncIterator[Agent]:
    folder = tmp_path / "node"
    folder.mkdir()
    async with open_http_session() as session:
        yield Agent(site, session, folder)


async def test_a_node_joins_and_is_the_same_when_it_comes_back(agent: Agent) -> None:
    token = await agent.enrolment()
    joined = await agent.join(WORKER, token)
    assert (joined.is_known, joined.is_registering, joined.masters) == (True, False, [agent.site.url])
    assert joined.enrolled_with == short_hash(token)
    assert await agent.region(joined) == "eu"
    assert await agent.join(WORKER) == joined
    assert await agent.uses_left() == [0]


@pytest.mark.parametrize("with_token", ["none", "used up", "another", "its own secret"])
async def test_what_is_new_is_told_with_its_own_secret_which_it_keeps(agent: Agent, with_token: str) -> None:
    used = await agent.enrolment()
    joined = await agent.join(WORKER, used)
    given = {"none": None, "used up": used, "another": await agent.enrolment(), "its own secret": joined.secret}
    left = await agent.uses_left()
    moved = await agent.join(MOVED, given[with_token])
    assert await agent.region(moved) == "us"
    assert moved == msgspec.structs.replace(joined, description_hash=moved.description_hash)
    assert moved.description_hash != joined.description_hash
    assert await agent.uses_left() == left
    assert len(await agent.site.store.load_nodes()) == 1


async def test_an_interrupted_registration_is_repeated_under_the_same_id(agent: Agent) -> None:
    token = await agent.enrolment()
    joined = await agent.join(WORKER, token)
    agent.file.save(msgspec.structs.replace(joined, secret="f" * 64, is_registering=True))
    again = await agent.join(MOVED, token)
    assert (again.node_id, again.is_registering) == (joined.node_id, False)
    assert await agent.region(again) == "us"


async def test_a_registration_that_is_repeated_with_its_own_secret_keeps_it(agent: Agent) -> None:
    joined = await agent.join(WORKER, await agent.enrolment())
    agent.file.save(msgspec.structs.replace(joined, is_registering=True))
    again = await agent.join(MOVED, joined.secret)
    assert (again.node_id, again.secret, again.is_registering) == (joined.node_id, joined.secret, False)
    assert await agent.region(again) == "us"


async def test_a_node_that_may_not_tell_what_is_new_goes_on_as_it_was_known(agent: Agent) -> None:
    joined = await agent.join(WORKER, await agent.enrolment())
    await agent.site.master.register.register_node(_taken(), "somebody else")
    with structlog.testing.capture_logs() as logs:
        same = await agent.join(msgspec.structs.replace(WORKER, device_id="worker-001"))
    assert same == joined
    assert [(line["event"], "worker-001" in line["why"]) for line in logs] == [("not_announced", True)]


async def test_a_removed_node_comes_back_only_with_another_token(agent: Agent) -> None:
    token, other = await agent.enrolment(2), await agent.enrolment()
    joined = await agent.join(WORKER, token)
    await agent.site.master.node_changes.unregister_node(joined.node)
    # Neither by something new to tell: whoever removed it meant it.
    assert await agent.join(MOVED, token) == joined
    assert await agent.joiner(token).join_anew(MOVED) is None
    assert await agent.joiner(None).join_anew(MOVED) is None
    anew = await agent.joiner(other).join_anew(MOVED)
    assert anew is not None
    assert anew.node_id != joined.node_id
    assert await agent.region(anew) == "us"


async def test_a_secret_of_another_node_is_no_enrol_token(agent: Agent, tmp_path: Path) -> None:
    joined = await agent.join(WORKER, await agent.enrolment())
    (tmp_path / "second").mkdir()
    with pytest.raises(ConfigError, match="enrol_token: not accepted"):
        await Agent(agent.site, agent.session, tmp_path / "second").join(WORKER, joined.secret)


def _taken() -> NodeDescription:
    return NodeDescription("other", device_id="worker-001")
