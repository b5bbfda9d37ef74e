"""Metrics of a master, as a scraper sees them."""

import asyncio
from collections.abc import Callable, Iterator

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from crawlfleet.api.http.services import Services
from crawlfleet.api.routes import metrics as metrics_routes
from crawlfleet.api.views import installation_metrics, metrics_scrape
from crawlfleet.api.views.installation_metrics import INSTALLATION_METRICS
from crawlfleet.api.views.process_metrics import PROCESS_METRICS, collect_process_metrics
from crawlfleet.control.admin import installation_reader
from crawlfleet.errors import StoreUnavailable
from crawlfleet.model.principal import Role
from crawlfleet.version import __version__
from tests.api.kit import Site, Worker

OPEN = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2"


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_scrape, "CACHED_S", 0.0)


async def scrape(site: Site, path: str = "/metrics", role: str = "metrics") -> dict[str, Metric]:
    answer = await site.get(path, role=role)
    assert answer.status == 200, answer.content
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    return {family.name: family for family in parse_plain(answer.content.decode())}


def value(families: dict[str, Metric], name: str, **labels: str) -> float:
    """The number of the one sample with these labels."""
    samples = [sample for family in families.values() for sample in family.samples if sample.name == name]
    (found,) = [sample.value for sample in samples if labels.items() <= sample.labels.items()]
    return float(found)


async def test_every_declared_metric_is_there_with_its_labels(site: Site) -> None:
    site.master.metrics.notices.add("ops", "sent")
    families = await scrape(site)
    assert {metric.full_name.removesuffix("_total") for metric in PROCESS_METRICS} == set(families)
    for metric in PROCESS_METRICS:
        family = families[metric.full_name.removesuffix("_total")]
        assert family.type == metric.kind
        labels = {frozenset(sample.labels) - {"le"} for sample in family.samples}
        assert labels <= {frozenset(metric.labels)}, metric
    assert value(families, "crawlfleet_build_info", version=__version__) == 1
    assert value(families, "crawlfleet_is_leader") == 1
    assert value(families, "crawlfleet_broker_up") == 1
    assert value(families, "crawlfleet_notices_total", channel="ops", result="sent") == 1
    assert value(families, "crawlfleet_loop_pass_seconds_count", loop="leader") >= 1
    assert value(families, "crawlfleet_loop_last_pass_timestamp_seconds", loop="leader") > 1_600_000_000
    assert value(families, "crawlfleet_store_transaction_seconds_count", kind="write") >= 1


async def test_openmetrics_is_written_where_it_is_accepted(site: Site) -> None:
    answer = await site.get("/metrics", role="viewer", headers={"Accept": OPEN})
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    families = {family.name: family for family in parse_open(answer.content.decode())}  # type: ignore[no-untyped-call]
    assert families["crawlfleet_http_requests"].type == "counter"


async def test_requests_are_counted_by_route_template_on_both_paths(site: Site, worker: Worker) -> None:
    tasks = [await site.submit() for _ in range(3)]
    for task in tasks:
        await site.until_status(task, "completed")
    assert (await site.get("/api/v1/tasks/task-ffffffffffffffff")).status == 404
    assert (await site.get("/api/v1/queues")).status == 200
    assert (await site.get("/api/v1/no/such/path")).status == 404
    assert (await site.get("/api/v1/queues", role=None)).status == 401
    families = await scrape(site)
    name = "crawlfleet_http_requests_total"
    assert value(families, name, route="/api/v1/tasks", method="POST", code_class="2xx") == 3
    assert value(families, name, route="/api/v1/tasks/{task_id}", method="GET", code_class="2xx") >= 3
    assert value(families, name, route="/api/v1/tasks/{task_id}", method="GET", code_class="4xx") == 1
    assert value(families, name, route="/api/v1/queues", method="GET", code_class="2xx") == 1
    assert value(families, name, route="unmatched", method="GET", code_class="4xx") == 2
    assert value(families, "crawlfleet_http_request_duration_seconds_count", route="/api/v1/tasks") == 3


async def test_nothing_that_callers_invent_becomes_a_label(site: Site) -> None:
    before = len((await site.get("/metrics")).content)
    for number in range(20):
        await site.get(f"/nothing/{number}")
        await site.get(f"/api/v1/tasks/task-{number:016x}")
    text = (await site.get("/metrics")).content.decode()
    assert "/nothing" not in text
    assert "task-00" not in text
    assert len(text) < before + 10_000


async def test_open_event_streams_are_counted(site: Site) -> None:
    headers = {"Authorization": f"Bearer {site.tokens['viewer']}"}
    async with site._session.get(f"{site.url}/api/v1/events", headers=headers) as response:
        await response.content.readline()
        assert value(await scrape(site), "crawlfleet_event_streams") == 1

    async def has_none() -> bool:
        return value(await scrape(site), "crawlfleet_event_streams") == 0

    await site.until(has_none)


async def test_a_token_is_needed(site: Site) -> None:
    assert (await site.get("/metrics", role=None)).told == (401, "not_authenticated", "Authorization")
    assert (await site.get("/metrics", token="0" * 64)).told == (401, "not_authenticated", "Authorization")
    assert (await site.get("/metrics", role="enrol")).told == (403, "not_allowed", "Authorization")
    for role in ("viewer", "operator", "admin", "metrics"):
        assert (await site.get("/metrics", role=role)).status == 200


OPEN_PATHS = {"/healthz", "/readyz", "/metrics", "/metrics/installation"}


async def test_a_metrics_token_opens_nothing_else(site: Site) -> None:
    paths = (await site.get("/openapi.json", role=None)).json["paths"]
    calls = [(method.upper(), path) for path, item in paths.items() if path not in OPEN_PATHS for method in item]
    assert len(calls) > 80
    for method, template in calls:
        path = template.replace("{", "").replace("}", "")
        answer = await site.send(method, path, role="metrics")
        assert answer.told == (403, "not_allowed", "Authorization"), (method, path)


async def test_a_scraper_every_moment_reads_a_cached_text(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    written = 0
    collect = collect_process_metrics

    def count_reads(services: Services) -> Iterator[Metric]:
        nonlocal written
        written += 1
        return collect(services)

    monkeypatch.setattr(metrics_scrape, "CACHED_S", 60.0)
    monkeypatch.setattr(metrics_routes, "collect_process_metrics", count_reads)
    answers = await asyncio.gather(*(site.get("/metrics", role="metrics") for _ in range(50)))
    assert {answer.status for answer in answers} == {200}
    assert written == 1


async def test_a_store_that_is_away_does_not_hide_the_process(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens are in the store: those that scraped before go on, others get a 503."""
    known = (await site.master.tokens.create_token(Role.METRICS, name="known", by="tests")).secret
    assert (await site.get("/metrics", token=known)).status == 200
    _take_store_away(site, monkeypatch)
    assert (await site.get("/metrics", token=known)).status == 200
    answer = await site.get("/metrics", role="viewer")
    assert answer.status == 503
    assert answer.json["code"] == "store_unavailable"
    assert answer.headers["Retry-After"] == "1"


async def test_a_scraper_is_forgotten_after_a_while(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    known = (await site.master.tokens.create_token(Role.METRICS, name="known", by="tests")).secret
    assert (await site.get("/metrics", token=known)).status == 200
    monkeypatch.setattr("crawlfleet.api.routes.metrics.REMEMBERED_S", 0.0)
    _take_store_away(site, monkeypatch)
    assert (await site.get("/metrics", token=known)).status == 503


def _take_store_away(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise StoreUnavailable("away")

    forget: Callable[[], None] = site.master.tokens._trusted.clear
    forget()
    monkeypatch.setattr(site.store, "token_by_secret", fail)


# The installation


async def folded(site: Site) -> dict[str, Metric]:
    """A scrape that has all that happened: the leader folds what transactions counted every other second."""
    await site.master.tallier.wait_for_passes()
    return await scrape(site, "/metrics/installation")


async def test_the_installation_has_every_declared_metric(site: Site, worker: Worker) -> None:
    done = [await site.submit() for _ in range(3)]
    failed = await site.submit(parameters={"fail": "no", "permanent": True})
    for task in done:
        await site.until_status(task, "completed")
    await site.until_status(failed, "failed")
    held = await site.submit(parameters={"hold": True}, project_id="shop", priority=10)
    await site.until_status(held, "processing")
    await site.pause("later")
    for _ in range(2):
        await site.submit(task_type="web_crawl", queue="later", priority=1)
    families = await folded(site)
    assert {metric.full_name.removesuffix("_total") for metric in INSTALLATION_METRICS} == set(families)
    for metric in INSTALLATION_METRICS:
        family = families[metric.full_name.removesuffix("_total")]
        assert family.type == metric.kind
        assert {frozenset(sample.labels) - {"le"} for sample in family.samples} <= {frozenset(metric.labels)}, metric
    assert value(families, "crawlfleet_tasks", status="completed") == 3
    assert value(families, "crawlfleet_tasks", status="processing") >= 1
    assert value(families, "crawlfleet_tasks_submitted_total", task_type="echo") == 5
    assert value(families, "crawlfleet_executions_total", task_type="echo", outcome="completed") == 3
    assert value(families, "crawlfleet_executions_total", task_type="echo", outcome="failed") == 1
    assert value(families, "crawlfleet_execution_errors_total", error_class="http") == 1
    assert value(families, "crawlfleet_execution_duration_seconds_count", task_type="echo") == 4
    assert value(families, "crawlfleet_execution_duration_seconds_bucket", task_type="echo", le="+Inf") == 4
    assert value(families, "crawlfleet_task_wait_seconds_count", task_type="echo") == 4
    assert value(families, "crawlfleet_project_running", project="shop") == 1
    assert value(families, "crawlfleet_dead_letters") == 1
    assert value(families, "crawlfleet_nodes", cluster="default", status="online") == 1
    assert value(families, "crawlfleet_slots", cluster="default", state="used") >= 1
    assert value(families, "crawlfleet_masters") == 1
    assert value(families, "crawlfleet_leader_changes_total") == 1
    assert value(families, "crawlfleet_schedule_ticks_total", result="fired") == 0
    assert value(families, "crawlfleet_tasks_waiting", **{"class": "low"}) == 2
    assert value(families, "crawlfleet_oldest_wait_seconds") > 0


async def test_the_installation_needs_a_token_too(site: Site) -> None:
    assert (await site.get("/metrics/installation", role=None)).told == (401, "not_authenticated", "Authorization")
    assert (await site.get("/metrics/installation", role="enrol")).status == 403
    answer = await site.get("/metrics/installation", role="metrics", headers={"Accept": OPEN})
    families = {family.name for family in parse_open(answer.content.decode())}  # type: ignore[no-untyped-call]
    assert "crawlfleet_tasks" in families


async def test_invented_projects_share_one_label(site: Site, worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation_metrics, "MAX_PROJECTS", 3)
    for number in range(10):
        await site.submit(project_id=f"invented {number}", parameters={"hold": True})

    async def all_run() -> bool:
        families = await scrape(site, "/metrics/installation")
        samples = families["crawlfleet_project_running"].samples
        return sum(sample.value for sample in samples) == 10 and len(samples) == 4

    await site.until(all_run)
    assert value(await scrape(site, "/metrics/installation"), "crawlfleet_project_running", project="~other") == 7


async def test_a_store_that_is_away_is_a_503_for_the_installation(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr(site.store, "installation_counts", fail)
    answer = await site.get("/metrics/installation", role="metrics")
    assert (answer.status, answer.json["code"]) == (503, "store_unavailable")
    assert answer.headers["Retry-After"] == "1"


async def test_a_store_that_hangs_is_not_waited_for(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(installation_reader, "STORE_TIMEOUT_S", 0.1)
    monkeypatch.setattr(site.store, "installation_counts", hang)
    answer = await site.get("/metrics/installation", role="metrics")
    assert answer.status == 503
    assert answer.json["detail"] == "the store did not answer within 0.1 seconds"
