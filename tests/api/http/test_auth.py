"""Who may call: tokens, roles, addresses, failed attempts, and what is written down."""

from pathlib import Path

import pytest

from crawlfleet.api.http.auth import FailedAttempts
from crawlfleet.api.http.settings import ApiSettings
from tests.api.kit import Site, open_site

WRONG = "0" * 64


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Basic abc", f"Bearer {WRONG}", "Bearer ümlaut"])
async def test_without_a_valid_token_nothing_is_told(site: Site, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}
    answer = await site.get("/api/v1/tasks", role=None, headers=headers)
    assert answer.told == (401, "not_authenticated", "Authorization")
    assert answer.headers["WWW-Authenticate"] == "Bearer"


async def test_a_key_is_taken_wherever_a_token_is(site: Site) -> None:
    key = {"X-API-Key": site.tokens["operator"]}
    task = (await site.post("/api/v1/tasks", {"task_type": "echo", "queue": "held"}, role=None, headers=key)).json["id"]
    for method, path in (
        ("GET", f"/api/v1/tasks/{task}"),  # the fast path
        ("GET", "/api/v1/queues"),
        ("POST", f"/api/v1/tasks/{task}:cancel"),
    ):
        assert (await site.send(method, path, role=None, headers=key)).status == 200, path
    assert await site.audited() == [("operator", "task.cancel", task)]
    refused = await site.get("/api/v1/tokens", role=None, headers=key)
    assert refused.told == (403, "not_allowed", "Authorization")


@pytest.mark.parametrize("key", ["", " ", WRONG, "ümlaut", "0" * 201])
async def test_a_wrong_key_is_refused_as_a_wrong_token_is(site: Site, key: str) -> None:
    answer = await site.get("/api/v1/tasks", role=None, headers={"X-API-Key": key})
    assert answer.told == (401, "not_authenticated", "Authorization")


async def test_a_key_and_a_token_must_be_the_same(site: Site) -> None:
    both = {"X-API-Key": site.tokens["viewer"]}
    assert (await site.get("/api/v1/tasks", role="viewer", headers=both)).status == 200
    for path in ("/api/v1/tasks", "/api/v1/queues", "/api/v1/nothing"):
        answer = await site.get(path, role="admin", headers=both)
        assert answer.told == (422, "invalid_input", "X-API-Key"), path
    # Another scheme of Authorization is that of a proxy in front, say: it names no caller here.
    headers = {**both, "Authorization": "Basic abc"}
    assert (await site.get("/api/v1/tasks", role=None, headers=headers)).status == 200


async def test_wrong_keys_are_counted_like_wrong_tokens(tmp_path: Path) -> None:
    async with open_site(tmp_path, ApiSettings(failed_attempts_per_minute=5)) as site:
        for _ in range(5):
            await site.get("/api/v1/tasks", role=None, headers={"X-API-Key": WRONG})
        answer = await site.get("/api/v1/tasks", role=None, headers={"X-API-Key": site.tokens["viewer"]})
        assert answer.told == (429, "too_many_attempts", None)


async def test_what_exists_is_not_told_without_a_token(site: Site) -> None:
    for path in ("/api/v1/nothing", "/api/v1/tasks/task-0000000000000001", "/api/v2"):
        assert (await site.get(path, role=None)).status == 401


async def test_a_body_is_not_read_before_the_token(site: Site) -> None:
    answer = await site.post("/api/v1/tasks:cancel", data=b"{not json", role=None)
    assert answer.told == (401, "not_authenticated", "Authorization")


@pytest.mark.parametrize(("role", "status"), [("viewer", 403), ("enrol", 403), ("operator", 200), ("admin", 200)])
async def test_a_cancel_needs_an_operator(site: Site, role: str, status: int) -> None:
    task = await site.submit(queue="held", project_id="shop")
    answer = await site.post(f"/api/v1/tasks/{task}:cancel", role=role)
    assert answer.status == status
    if status == 403:
        assert answer.told == (403, "not_allowed", "Authorization")
        assert (await site.task(task))["status"] == "pending"


async def test_what_a_role_does_not_allow_is_written_down_once_a_minute(site: Site) -> None:
    task = await site.submit(queue="held")
    for _ in range(3):
        assert (await site.post(f"/api/v1/tasks/{task}:cancel", role="viewer")).status == 403
    (entry,) = await site.changes()
    assert (entry.action, entry.target) == ("role.refused", f"POST /api/v1/tasks/{task}:cancel")
    assert entry.address == "127.0.0.1"


async def test_an_enrol_token_sees_nothing(site: Site) -> None:
    for path in ("/api/v1/tasks", "/api/v1/tasks:stats", "/api/v1/dead-letters", "/api/v1/queues"):
        assert (await site.get(path, role="enrol")).told == (403, "not_allowed", "Authorization")


async def test_a_viewer_sees_and_changes_nothing(site: Site) -> None:
    task = await site.submit()
    for path in ("/api/v1/tasks", f"/api/v1/tasks/{task}", f"/api/v1/tasks/{task}/why", "/api/v1/queues"):
        assert (await site.get(path, role="viewer")).status == 200
    changes = [
        ("POST", "/api/v1/tasks", {"task_type": "echo"}),
        ("POST", "/api/v1/tasks:batch", {"tasks": []}),
        ("PATCH", f"/api/v1/tasks/{task}", {"priority": 1}),
        ("POST", f"/api/v1/tasks/{task}:retry", None),
        ("POST", "/api/v1/tasks:cancel", {"ids": [task]}),
        ("POST", "/api/v1/queues/default:pause", None),
        ("DELETE", f"/api/v1/dead-letters/{task}", None),
    ]
    for method, path, body in changes:
        answer = await site.send(method, path, body, role="viewer")
        assert answer.told == (403, "not_allowed", "Authorization"), path
    assert (await site.task(task))["status"] == "pending"
    assert await site.audited() == [("viewer", "role.refused", "POST /api/v1/tasks")]


async def test_a_revoked_token_is_refused(site: Site) -> None:
    records = {record.name: record for record in await site.master.tokens.list_tokens()}
    assert (await site.get("/api/v1/tasks", role="viewer")).status == 200
    await site.master.tokens.revoke_token(records["the viewer"].id)
    assert (await site.get("/api/v1/tasks", role="viewer")).status == 401


async def test_too_many_wrong_tokens_make_an_address_wait_and_leave_those_alone_that_were_there(tmp_path: Path) -> None:
    async with open_site(tmp_path, ApiSettings(failed_attempts_per_minute=5)) as site:
        assert (await site.get("/api/v1/tasks", role="viewer")).status == 200
        for _ in range(5):
            assert (await site.get("/api/v1/tasks", token=WRONG)).status == 401
        answer = await site.get("/api/v1/tasks", token=WRONG)
        assert answer.told == (429, "too_many_attempts", None)
        assert 0 < int(answer.headers["Retry-After"]) <= 60
        assert (await site.get("/api/v1/tasks", role="operator")).status == 429
        assert (await site.get("/api/v1/tasks", role="viewer")).status == 200
        assert (await site.get("/healthz", role=None)).status == 200


async def test_too_many_wrong_tokens_are_written_down_once(tmp_path: Path) -> None:
    async with open_site(tmp_path, ApiSettings(failed_attempts_per_minute=5)) as site:
        for count in range(8):
            await site.get("/api/v1/tasks", token=f"{count:064x}")
            assert len(await site.audited()) == (count >= 4)
        (entry,) = await site.master.audit.list_entries()
        assert (entry.role, entry.action, entry.address) == (None, "token.refused", "127.0.0.1")
        assert entry.details == {"attempts": 5}


async def test_a_missing_token_is_no_attempt(tmp_path: Path) -> None:
    async with open_site(tmp_path, ApiSettings(failed_attempts_per_minute=2)) as site:
        for _ in range(5):
            assert (await site.get("/api/v1/tasks", role=None)).status == 401
        assert (await site.get("/api/v1/tasks")).status == 200


@pytest.mark.parametrize(("network", "status"), [("127.0.0.0/8", 200), ("10.0.0.0/8", 403)])
async def test_only_allowed_networks_are_served(tmp_path: Path, network: str, status: int) -> None:
    async with open_site(tmp_path, ApiSettings(allowed_networks=(network,))) as site:
        answer = await site.get("/api/v1/tasks")
        assert answer.status == status
        if status == 403:
            assert answer.told == (403, "address_not_allowed", None)


async def test_changes_by_people_are_written_down(site: Site) -> None:
    task = await site.submit(queue="held")
    await site.post("/api/v1/queues/held:pause", role="operator")
    await site.send("PATCH", f"/api/v1/tasks/{task}", {"priority": 9}, role="operator")
    await site.post(f"/api/v1/tasks/{task}:cancel", role="admin")
    await site.post(f"/api/v1/tasks/{task}:cancel", role="admin")
    await site.post("/api/v1/tasks:retry", {"ids": [task]}, role="operator")
    assert await site.audited() == [
        ("operator", "queue.pause", "held"),
        ("operator", "task.prioritize", task),
        ("admin", "task.cancel", task),
        ("operator", "tasks.retry", "tasks"),
    ]
    assert [entry.address for entry in await site.changes()] == ["127.0.0.1"] * 4


def test_attempts_are_counted_by_address_in_a_window_that_slides() -> None:
    now = 100.0
    attempts = FailedAttempts(2, lambda: now)
    attempts.count_failure("a")
    now += 30
    attempts.count_failure("a")
    assert attempts.wait_s("a") == pytest.approx(30)
    assert attempts.wait_s("b") == 0
    now += 31
    assert attempts.wait_s("a") == 0
    attempts.count_failure("a")
    assert attempts.wait_s("a") == pytest.approx(29)


def test_attempts_are_heard_of_once_a_minute_by_address_and_not_of_all_addresses() -> None:
    now = 100.0
    attempts = FailedAttempts(2, lambda: now)
    assert [attempts.count_failure("a") for _ in range(4)] == [False, True, False, False]
    now += 59
    assert not attempts.count_failure("a")
    now += 2
    assert attempts.count_failure("a")
    for number in range(200):
        attempts.count_failure(f"{number}")
    assert sum(attempts.count_failure(f"{number}") for number in range(200)) == 99


def test_attempts_remember_a_bounded_number_of_addresses() -> None:
    attempts = FailedAttempts(1, lambda: 0.0)
    for number in range(10_001):
        attempts.count_failure(f"{number}")
    assert attempts.wait_s("0") == 0
    assert attempts.wait_s("1") > 0
