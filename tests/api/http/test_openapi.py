"""Every operation of the OpenAPI document, with what the document allows and with what it forbids: no answer is a
server error, and every answer is one that the document tells of, of the type and the shape it tells.

The same examples every time. By hand, for longer and with others:

    FUZZ_EXAMPLES=200 FUZZ_SEED=7 python -m pytest tests/api/http/test_openapi.py
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from crawlfleet.api.app import create_app
from crawlfleet.observe.metrics import ProcessMetrics
from crawlfleet.ports.clock import SystemClock
from crawlfleet.wire.sync import OpenUp, SyncUp
from tests.api.fuzzed_site import FuzzedSite, fuzzed_site

pytestmark = pytest.mark.slow

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "6"))
"""Of each operation, allowed and forbidden ones each."""
SEED = int(os.environ.get("FUZZ_SEED", "1"))
LINES, JSON = "application/x-ndjson", "application/json"
MADE_UP = object()
Case = schemathesis.Case[Any]
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
# The document says what the routes are; nothing behind them is touched for it.
DOCUMENT = create_app(cast("Any", SimpleNamespace(clock=SystemClock(), metrics=ProcessMetrics()))).openapi()
LABELS = [f"{method.upper()} {path}" for path, item in DOCUMENT["paths"].items() for method in item]
# Chunks while their execution is live: what other operations do ends it sooner or later. What is gone is gone.
LABELS.sort(key=lambda label: (label.startswith("DELETE"), "/executions/{" not in label))
SPOKEN = ("/nodes/{node_id}:open", "/nodes/{node_id}:sync")


@schemathesis.serializer(LINES)
def as_lines(_: schemathesis.SerializationContext, value: Any) -> bytes:
    """A list is a value per line; anything else goes as it is."""
    if isinstance(value, list):
        return b"".join(msgspec.json.encode(one) + b"\n" for one in value)
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FuzzedSite]:
    with fuzzed_site(tmp_path_factory.mktemp("fuzzed")) as one:
        yield one


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as one:
        yield one


@pytest.fixture(scope="module")
def schema(site: FuzzedSite) -> Any:
    loaded = schemathesis.openapi.from_dict(DOCUMENT)
    loaded.config.update(base_url=site.url)
    # Tokens that are made up would soon make the address wait.
    loaded.config.generation.update(with_security_parameters=False)
    return loaded


@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize("label", LABELS)
def test_every_answer_is_in_the_document(
    site: FuzzedSite, session: requests.Session, schema: Any, label: str, mode: schemathesis.GenerationMode
) -> None:
    operation = schema.find_operation_by_label(label)
    # A route that takes nothing can be given nothing forbidden.
    if mode is schemathesis.GenerationMode.NEGATIVE and not (operation.body or operation.query or operation.headers):
        return

    @seed(SEED)
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(case=operation.as_strategy(mode), real=_real(site, label))
    def run(case: Case, real: dict[str, Any]) -> None:
        _aim(site, case, real)
        case.call_and_validate(session=session, headers=_credentials(site, case), checks=CHECKS, timeout=30)

    run()


def _real(site: FuzzedSite, label: str) -> st.SearchStrategy[dict[str, Any]]:
    """What is there, in place of most of what is made up: otherwise every id would be nobody's."""
    known = dict(site.known)
    if label.startswith("DELETE"):
        known["node_id"] = ["spare-1"]
    chosen: dict[str, st.SearchStrategy[Any]] = {
        name: st.sampled_from(values) for name, values in known.items() if f"{{{name}}}" in label
    }
    task, ids = st.sampled_from(known["task_id"]), st.lists(st.sampled_from(known["task_id"]), min_size=1)
    match label.rpartition("/")[2]:
        case "{node_id}:open" | "{node_id}:sync":
            chosen = {"node_id": st.just(site.speaker.text), "body": _messages(site)}
        case "{number}":
            chosen |= {"query task": st.just(site.held_task), "body": _chunks()}
        case "tasks:batch":
            chosen |= {"body": st.lists(st.sampled_from([{"task_type": "echo"}, {"task_type": 1}, None]), max_size=3)}
        case "tasks" | "nodes:register":
            chosen |= {"field task_type": st.just("echo"), "field parameters": st.just({}), "query cursor": task}
            chosen |= {"field type": st.just("echo"), "field params": st.just({})}
        case "batch":
            good, no_type = {"type": "echo", "params": {}}, {"type": "none", "params": {}}
            members = st.sampled_from([good, no_type, {"type": "echo"}])
            chosen |= {"field tasks": st.lists(members, min_size=1, max_size=3)}
        case "cancel":
            chosen |= {"field task_ids": ids}
        case "schedules" | "{schedule_id}":
            cron, zone = st.sampled_from(["0 3 * * *", "0 0 30 2 *"]), st.sampled_from(["UTC", "Asia/Tokyo", "Nowhere"])
            chosen |= {"field task": st.just({"task_type": "echo"}), "field cron": cron, "field time_zone": zone}
            chosen |= {f"field {name}": st.none() for name in ("at", "every_s", "starts_at", "ends_at")}
        case "tasks:cancel" | "tasks:retry" | "tasks:prioritize" | "dead-letters:replay" | "dead-letters:drop":
            chosen |= {"field ids": ids}
        case "tasks:assign":
            chosen |= {"field ids": ids, "field node": st.sampled_from(known["node_id"])}
        case "{task_id}:assign":
            chosen |= {"field node": st.sampled_from(known["node_id"])}
        case "pull" | "assign" | "status" as call:
            place = "query device_id" if call == "pull" else "field device_id"
            chosen |= {place: st.sampled_from(known["device_id"])}
            chosen |= {"field execution_id": st.sampled_from(known["execution_id"])}
        case "config":
            chosen |= {"field values": st.just({"max_waiting": 1_000_000}), "field expected_version": st.none()}
        case "events":
            chosen |= {"query task": task, "query node": st.sampled_from(known["node_id"])}
    # Each on its own: a real id with a body that is made up, and the other way round.
    return st.fixed_dictionaries({name: _mostly(values) for name, values in chosen.items()})


def _mostly(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(values, values, values, st.just(MADE_UP))


def _messages(site: FuzzedSite) -> st.SearchStrategy[list[Any]]:
    node, number = site.speaker.id, st.integers(0, 1 << 40)
    opened = st.builds(OpenUp, st.just(node), st.just(site.speaker.secret), slots=st.integers(-1, 20_000))
    synced = st.builds(SyncUp, st.just(node), st.integers(0, 9), number, st.just(0), st.lists(number, max_size=3))
    return st.one_of(opened, synced).map(lambda up: cast("list[Any]", msgspec.to_builtins(up)))


def _chunks() -> st.SearchStrategy[list[Any]]:
    line = {"at": 1_700_000_000_000, "level": "info", "message": "hello"}
    return st.lists(st.sampled_from([line, {"level": "loud"}, {}, 7]), max_size=3)


def _aim(site: FuzzedSite, case: Case, real: dict[str, Any]) -> None:
    for name, value in real.items():
        place, _, field = name.rpartition(" ")
        if value is MADE_UP:
            continue
        if place == "query":
            case.query = {**(case.query or {}), field: value}
        elif place == "field":
            # Only where it has one: to say what a route does not know is tried by what is made up.
            if isinstance(case.body, dict) and field in case.body:
                case.body = {**case.body, field: value}
        elif name != "body":
            case.path_parameters = {**(case.path_parameters or {}), name: value}
        elif case.media_type in (LINES, JSON):
            case.body = {"tasks": value} if case.path.endswith(":batch") and case.media_type == JSON else value
    _spare(site, case)


def _spare(site: FuzzedSite, case: Case) -> None:
    """What cannot be tried."""
    query = case.query or {}
    # Whoever revokes or rotates the token in use can ask nothing more.
    if str((case.path_parameters or {}).get("token_id")) == str(site.in_use):
        case.path_parameters["token_id"] = site.known["token_id"][0]
    # A stream of events has no end.
    if case.path.endswith("/events"):
        case.query = {**query, "format": "json"}
    # Nobody has the time to wait for what does not happen.
    if "wait_s" in query and _is_long(query["wait_s"]):
        case.query = {**query, "wait_s": 0.05}


def _is_long(wait_s: Any) -> bool:
    try:
        return 0.05 < float(wait_s) <= 30
    except (TypeError, ValueError):
        return False


def _credentials(site: FuzzedSite, case: Case) -> dict[str, str]:
    """Each operation with a token that may do it."""
    secret = site.admin
    if case.path.endswith(SPOKEN):
        secret = site.speaker.secret
    elif "/executions/" in case.path:
        secret = site.holder
    return {"Authorization": f"Bearer {secret}"}
