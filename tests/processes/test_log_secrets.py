"""No secret is in any log: each kind is used at level debug, through rotations and faults, and then searched for."""

from __future__ import annotations

import secrets
import signal
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
import redis
from aiohttp import web

from testkit.servers import PostgresServer, RedisServer, S3Server
from testkit.servers.server import free_port
from tests.processes.fleet import Fleet, fleet
from tests.unit.execution.crawl.fetch.proxy_kit import proxy

pytestmark = [pytest.mark.integration, pytest.mark.postgres, pytest.mark.slow]


def new_secret() -> str:
    return secrets.token_hex(12)


class Searched:
    """Every secret that the test has issued, by what it is, and a search for them."""

    def __init__(self) -> None:
        self.secrets: dict[str, str] = {}

    def add(self, name: str, secret: str | None = None) -> str:
        secret = secret or new_secret()
        assert len(secret) >= 8, name
        self.secrets[name] = secret
        return secret

    def leaks(self, folder: Path) -> list[str]:
        logs = {file: file.read_text(errors="replace") for file in folder.rglob("*.log*") if file.is_file()}
        assert len(logs) >= 6, sorted(logs)
        return [
            f"{name} in {file}: {next(line for line in text.splitlines() if secret in line)}"
            for name, secret in self.secrets.items()
            for file, text in logs.items()
            if secret in text
        ]


@pytest.fixture
def searched(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Searched:
    searched = Searched()
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", searched.add("S3 key"))
    monkeypatch.setenv("CRAWLFLEET_LOG_LEVEL", "DEBUG")
    monkeypatch.setenv("CRAWLFLEET_ALERT_ALLOW_HOSTS", "127.0.0.1")
    return searched


@asynccontextmanager
async def cookie_site(cookie: str) -> AsyncIterator[str]:
    """Serve a site that gives each visitor a cookie, as a process of its own would."""

    async def show_page(_request: web.Request) -> web.Response:
        page = web.Response(text="<title>a page</title><h1>a page</h1>", content_type="text/html")
        page.set_cookie("session", cookie)
        return page

    app = web.Application()
    app.router.add_get("/{path:.*}", show_page)
    server = web.AppRunner(app, shutdown_timeout=0.05)
    await server.setup()
    try:
        await web.TCPSite(server, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{server.addresses[0][1]}"
    finally:
        await server.cleanup()


async def crawl_all(running: Fleet, site_url: str) -> None:
    """Use cookies, proxies with passwords and a header, and fail at a page as well."""
    header = {"Authorization": "Bearer " + SITE_TOKEN}
    for parameters in (
        {"url": f"{site_url}/", "keep_cookies": "login"},
        {"url": f"{site_url}/again", "keep_cookies": "login", "headers": header},
        {"url": f"{site_url}/", "proxies": {"pool": "fast"}},
    ):
        body = {"depth": 0, "respect_robots": False, **parameters}
        (task,) = await running.submit([{"task_type": "web_crawl", "parameters": body}])
        await running.until_status([task], "completed")


SITE_TOKEN = new_secret()


async def call_with_tokens(running: Fleet, searched: Searched) -> None:
    """Make, use, rotate and misuse tokens of every role."""
    for role in ("viewer", "operator", "admin", "enrol"):
        made = await running.client.create_token(role)
        token = searched.add(f"{role} token", made.token)
        rotated = searched.add(f"rotated {role} token", (await running.client.rotate_token(made.id)).token)
        for secret in (token, rotated):
            headers = {"Authorization": f"Bearer {secret}", "Idempotency-Key": "x" * 300}
            async with aiohttp.ClientSession(headers=headers) as session:
                for path in ("/api/v1/tasks", f"/api/v1/tasks?token={secret}", f"/api/v1/{secret}"):
                    async with session.get(running.client.url + path):
                        pass
                async with session.post(f"{running.client.url}/api/v1/tasks", data=secret.encode()):
                    pass


def read_log(file: Path) -> str:
    """Return what is in a log file; a rotated one is made anew with the next line."""
    return file.read_text() if file.exists() else ""


async def change_levels(running: Fleet, logs: Path) -> None:
    """Change the level of the node and of all masters while they run, and back."""
    changed = {"log_level_nodes": "warning", "log_level_masters": "ERROR"}
    for values, level in ((changed, "error"), ({}, "debug")):
        await running.client.put_config(values)
        before = read_log(logs / "worker.log").count("log_level_changed")

        async def is_changed(level: str = level, before: int = before) -> bool:
            is_node_changed = read_log(logs / "worker.log").count("log_level_changed") > before
            return is_node_changed and (await running.client.log_level()).level == level

        await running.until(is_changed, f"the levels have not changed to {values}")


async def try_channels(running: Fleet, searched: Searched) -> None:
    """Set channels of alerts whose addresses and keys are secret, and let their tests fail."""
    key = b64encode(secrets.token_bytes(24)).decode()
    searched.add("webhook secret", key)
    gone = f"https://127.0.0.1:{free_port()}"
    channels = {
        "hook": ("webhook", {"url": f"{gone}/{searched.add('path of a webhook')}", "secret": f"whsec_{key}"}),
        "ding": ("dingtalk", {"url": f"{gone}/robot/send?access_token={searched.add('DingTalk token')}"}),
    }
    for name, (kind, fields) in channels.items():
        path = f"/api/v1/alerts/channels/{name}"
        answer = await running.call("PUT", path, json={"kind": kind, "fields": fields})
        assert answer.status == 200, answer.body
        await running.call("POST", f"{path}:test")


async def rotate_logs(running: Fleet, folder: Path) -> None:
    for name in ("master", "worker"):
        (folder / f"{name}.log").rename(folder / f"{name}.log.1")
    running.master.signal(signal.SIGHUP)
    running.workers[0].signal(signal.SIGHUP)


async def fail_to_start(running: Fleet, *options: str, until: str) -> None:
    """Start a second master whose addresses are wrong, and read what it says of them."""
    process = await running._spawn(
        "wrong", "master", "--data-dir", str(running.folder / "wrong"), "--port", "0", *options
    )
    await running.until(lambda: until in process.log.read_text(), f"{until} is not in its log")
    if process.child.returncode is None:
        await process.kill()


async def test_no_secret_is_in_any_log(
    tmp_path: Path, searched: Searched, postgres_server: PostgresServer, s3_server: S3Server
) -> None:
    searched.add("site token", SITE_TOKEN)
    dsn = postgres_server.create_database()
    store = dsn.replace("postgres@", f"postgres:{searched.add('database password')}@")
    bucket = s3_server.create_bucket("secrets")
    logs = tmp_path / "kept"
    logs.mkdir()
    async with cookie_site(searched.add("cookie")) as site, proxy() as good, fleet(tmp_path) as running:
        with RedisServer() as cache:
            password = searched.add("Redis password")
            with redis.Redis(host="127.0.0.1", port=cache.port) as client:
                client.config_set("requirepass", password)
            broker = cache.url.replace("redis://", f"redis://:{password}@")
            options = ("--store", store, "--broker", broker, "--results", bucket)
            await running.start_master(*options, "--log-file", str(logs / "master.log"))
            searched.add("admin token", running.admin)
            good.user = f"ann:{searched.add('proxy password')}"
            gone = f"http://bob:{searched.add('password of a proxy that is gone')}@127.0.0.1:{free_port()}"
            pools = tmp_path / "proxies.txt"
            pools.write_text(f"fast {gone}\nfast {good.url}\n")
            enrol = searched.add("enrol token in use", (await running.client.create_token("enrol", uses=1)).token)
            await running.start_worker(
                "worker",
                *("--allow-host", "127.0.0.1", "--proxies-file", str(pools), "--log-file", str(logs / "worker.log")),
                token=enrol,
            )
            await running.until_online(1)
            searched.add("node secret", running.identity("worker").secret)
            await call_with_tokens(running, searched)
            await try_channels(running, searched)
            await crawl_all(running, site)
            await rotate_logs(running, logs)
            await change_levels(running, logs)
            await crawl_all(running, site)
            assert [jar.cookies for jar in await running.client.cookie_jars()] == [1]
            # Faults: their messages come from libraries.
            s3_server.believe_keys(False)
            try:
                (task,) = await running.submit([_crawl(site)])
                await running.until(lambda: "chunk" in read_log(logs / "worker.log"), "the refused key is not logged")
            finally:
                s3_server.believe_keys(True)
            await running.until_status([task], "completed")
            cache.stop()
            await running.until(lambda: "redis_away" in read_log(logs / "master.log"), "the lost broker is not logged")
        wrong = f"postgresql://fleet:{searched.add('password of a wrong store')}@127.0.0.1:{free_port()}/fleet"
        await fail_to_start(running, "--store", wrong, until="store_away")
        await fail_to_start(running, "--store", wrong.replace("postgresql", "oracle"), until="error")
        lost = f"redis://:{searched.add('password of a wrong broker')}@127.0.0.1:{free_port()}/0"
        await fail_to_start(running, "--broker", lost, until="redis")
        code, _ = await running.run(
            "refused",
            "worker",
            "--master",
            running.client.url,
            "--data-dir",
            str(tmp_path / "refused"),
            env={"CRAWLFLEET_ENROL_TOKEN": searched.add("wrong enrol token", secrets.token_hex(32))},
        )
        assert code == 2
        await running.close()
    _check_lines(logs)
    assert searched.leaks(tmp_path) == []


def _check_lines(logs: Path) -> None:
    """Look whether these are the logs that were meant: of level debug, in JSON or for people, and rotated."""
    for name in ("master", "worker"):
        for file in (logs / f"{name}.log.1", logs / f"{name}.log"):
            assert file.stat().st_size > 0, file
    assert "tasks_placed" in (logs / "master.log.1").read_text()


def _crawl(url: str) -> dict[str, object]:
    parameters = {"url": f"{url}/", "depth": 0, "respect_robots": False}
    return {"task_type": "web_crawl", "parameters": parameters}
