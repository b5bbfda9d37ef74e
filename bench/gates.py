"""`make gates`: the quality gates that this project set itself, measured on a real installation, on both stores.

    python -m bench.gates [--only sqlite|postgres] [--write]

Ten nodes in one installation, two sites of the test kit: a shop, and the nasty one. What each gate means is said in
docs/performance.md, where `--write` puts the table. On a machine that is busy with something else before the run, the
result is marked void.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import re
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import psutil

from bench.installation import Installation, installation
from bench.table import Row, format_table, print_table, say
from testkit.notice_receiver import NoticeReceiver, accept_all
from testkit.servers import PostgresServer
from testkit.site import SiteProcess, site_process

NODES = 10
TASKS, NASTY_TASKS = 1_000, 200
WITHIN_S = 300.0
BUSY_PERCENT = 30.0
SUCCESS_LEAST = 0.95
AVERAGE_S_MOST = 3.0
RESPONSE_MS_MOST = 100.0
ALERT_FOR_S, ALERT_LATE_S = 5, 15
"""How long the rule wants its value to be bad, and how late its message may be then."""
BEGIN, END = "<!-- gates -->\n", "<!-- end of gates -->\n"
PAGE = Path(__file__).parents[1] / "docs" / "performance.md"

NASTY_PAGES = (
    *("encoding/gzip", "encoding/deflate", "encoding/br", "encoding/zstd", "encoding/members"),
    *("charset/meta", "charset/utf-16", "charset/big5", "charset/gb18030", "charset/late", "charset/mixed"),
    *("markup/broken", "markup/nulls", "redirect/relative", "redirect/308", "type/xhtml", "stall/slow"),
)
"""Pages of the nasty site that a good crawler has in the end."""
NASTY_FAILURES = ("refuse/401", "encoding/corrupt", "redirect/loop")
"""Pages that nobody can have: their tasks have to fail."""
_POLL_S = 0.05


class Gate:
    """One installation under test, and what was measured of it."""

    def __init__(self, name: str, running: Installation, rows: list[Row]) -> None:
        self.name = name
        self.running = running
        self.rows = rows

    def add_row(self, what: str, value: str, target: str, is_met: bool) -> None:
        self.rows.append(Row(f"{self.name}: {what}", value, target, is_met))
        say(f"{self.name}: {what}: {value} ({target})")

    async def counts(self) -> dict[str, int]:
        counts: dict[str, int] = msgspec.json.decode(await self.running.get("tasks:stats"))["by_status"]
        return counts

    async def open_hosts(self, *urls: str) -> None:
        """Take the politeness of a crawler out of the way: the gates are about the installation."""
        for url in urls:
            await self.running.put(f"hosts/{url.removeprefix('http://')}", {"rate": 10_000, "concurrency": 10_000})

    async def submit_all(self, bodies: Sequence[dict[str, Any]]) -> None:
        await self.running.post("tasks:batch", {"mode": "atomic", "tasks": list(bodies)})

    async def wait_until(self, is_over: Callable[[dict[str, int]], bool]) -> dict[str, int]:
        async with asyncio.timeout(WITHIN_S):
            while True:
                counts = await self.counts()
                if is_over(counts):
                    return counts
                await asyncio.sleep(_POLL_S)


async def product_urls(shop_url: str) -> list[str]:
    """The pages of products, as the shop's own sitemap lists them."""
    async with aiohttp.ClientSession() as session, session.get(f"{shop_url}/sitemap.xml") as response:
        listed = re.findall(r"<loc>([^<]+)</loc>", await response.text())
    return [url for url in listed if "/products/" in url][:TASKS]


def crawl_task(url: str) -> dict[str, Any]:
    parameters = {"url": url, "max_pages": 1}
    return {"task_type": "web_crawl", "project_id": "gates", "parameters": parameters, "timeout_s": 240}


async def measure_concurrency(gate: Gate, shop: SiteProcess, nasty: SiteProcess) -> None:
    """A thousand executions at one instant: every page is held back by its site until all of them run."""
    await gate.open_hosts(shop.url, nasty.url)
    await shop.hold()
    pages = [f"{shop.url}/products/{number + 1}" for number in range(TASKS - NASTY_TASKS)]
    impossible = [f"{nasty.url}/nasty/{path}" for path in NASTY_FAILURES for _ in range(10)]
    odd = [f"{nasty.url}/nasty/{NASTY_PAGES[number % len(NASTY_PAGES)]}" for number in range(NASTY_TASKS - 30)]
    await nasty.hold()
    began = time.monotonic()
    await gate.submit_all([crawl_task(url) for url in (*pages, *odd, *impossible)])
    witnessed = (await gate.wait_until(lambda counts: counts["processing"] >= TASKS))["processing"]
    took_s = time.monotonic() - began
    await asyncio.gather(shop.release(), nasty.release())
    counts = await gate.wait_until(_is_quiet)
    gate.add_row("processing at one instant", f"{witnessed:,} after {took_s:.1f} s", f"{TASKS:,}", witnessed >= TASKS)
    share, possible = counts["completed"] / TASKS, TASKS - len(impossible)
    value = f"{share:.1%}, and {counts['completed']} of the {possible} that can"
    is_met = share >= SUCCESS_LEAST and counts["completed"] == possible
    gate.add_row("of these completed", value, f">= {SUCCESS_LEAST:.0%}, all that can", is_met)


async def measure_average(gate: Gate, shop_url: str) -> None:
    """The average run time of a thousand products, a hundred at once, while the queue's calls are timed."""
    await gate.open_hosts(shop_url)
    bodies = [
        {"task_type": "single_product", "project_id": "gates", "parameters": {"url": url}}
        for url in await product_urls(shop_url)
    ]
    async with queue_prober(gate.running) as samples:
        await gate.submit_all(bodies)
        await gate.wait_until(_is_quiet)
    row = await history_sums(gate.running, "type:single_product")
    runs = row["completed"] + row["failed"] + row["timeout"]
    average_s = row["ran_ms"] / 1_000 / max(1, runs)
    value = f"{average_s:.2f} s of {runs:,}, {row['tasks_failed']} failed"
    gate.add_row(
        "average run time of a product",
        value,
        f"<= {AVERAGE_S_MOST:g} s",
        average_s <= AVERAGE_S_MOST and runs >= TASKS,
    )
    for call, times in samples.items():
        p99 = percentile(times, 0.99)
        value = f"p50 {statistics.median(times):.1f} ms, p99 {p99:.1f} ms of {len(times)}"
        gate.add_row(f"queue's {call} meanwhile", value, f"p99 <= {RESPONSE_MS_MOST:g} ms", p99 <= RESPONSE_MS_MOST)


async def measure_idle_assignment(gate: Gate) -> None:
    """From ready to assigned, of an installation that does nothing else."""
    for _ in range(100):
        task = await gate.running.submit_one(b'{"task_type":"echo","project_id":"idle","parameters":{}}')
        await gate.running.get(f"tasks/{task}?wait_s=10")
    p99 = (await history_sums(gate.running, "project:idle", ["wait_p99_ms"]))["wait_p99_ms"]
    is_met = p99 <= RESPONSE_MS_MOST
    gate.add_row("ready to assigned, idle", f"p99 below {p99:.0f} ms", f"<= {RESPONSE_MS_MOST:g} ms", is_met)


async def measure_exactness(gate: Gate, when: str) -> None:
    """What the history says of everything so far, beside the rows themselves."""
    row, counts = await history_sums(gate.running, "*"), await gate.counts()
    said = {word: row[f"tasks_{word}"] for word in ("completed", "failed", "timeout", "cancelled")}
    rows = {word: await count_listed(gate.running, word) for word in said}
    is_exact = said == rows == {word: counts[word] for word in said} and row["submitted"] == sum(rows.values())
    value = f"{row['submitted']:,} submitted, " + ", ".join(
        f"{count:,} {word}" for word, count in said.items() if count
    )
    gate.add_row(f"history beside the rows, {when}", value, "equal", is_exact)


async def measure_alert(gate: Gate) -> None:
    """From the submit that passes a threshold to the message at its receiver."""
    running = gate.running
    async with NoticeReceiver(accept_all) as receiver:
        secret = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
        channel = {"kind": "webhook", "fields": {"url": f"{receiver.origin}/alerts", "secret": secret}}
        await running.put("alerts/channels/gates", channel)
        await running.put("alerts/rules/queue_size", {"threshold": 50, "clear": 10, "for_s": ALERT_FOR_S})
        await running.post("queues/default:pause")
        echo = {"task_type": "echo", "project_id": "alerts", "parameters": {}}
        await gate.submit_all([echo] * 100)
        began = time.monotonic()
        async with asyncio.timeout(WITHIN_S):
            await receiver.wait_for_requests(1)
        took_s = time.monotonic() - began
        await running.post("queues/default:resume")
        await gate.wait_until(_is_quiet)
    most_s = ALERT_FOR_S + ALERT_LATE_S
    gate.add_row("threshold passed to message received", f"{took_s:.1f} s", f"<= {most_s:g} s", took_s <= most_s)


async def count_listed(running: Installation, status: str) -> int:
    """Count tasks by reading every one of them."""
    count, cursor = 0, ""
    while True:
        page = msgspec.json.decode(await running.get(f"tasks?status={status}&limit=1000{cursor}"))
        count += len(page["tasks"])
        if page["next_cursor"] is None:
            return count
        cursor = f"&cursor={page['next_cursor']}"


async def history_sums(running: Installation, series: str, extra: Sequence[str] = ()) -> dict[str, Any]:
    """The figures of a series so far, when everything is folded."""
    names = ["submitted", "completed", "failed", "timeout", "ran_ms"]
    names += [f"tasks_{word}" for word in ("completed", "failed", "timeout", "cancelled")]
    fields = ",".join(extra or names)
    await asyncio.sleep(4.0)  # folds are two seconds apart
    history = msgspec.json.decode(await running.get(f"history?series={series}&span=day&fields={fields}"))
    columns = history["series"][0]["fields"]
    if extra:
        return {name: max(value for value in column if value is not None) for name, column in columns.items()}
    return {name: sum(column) for name, column in columns.items()}


@asynccontextmanager
async def queue_prober(running: Installation) -> AsyncIterator[dict[str, list[float]]]:
    """Call the queue dialect again and again, and time each answer."""
    samples: dict[str, list[float]] = {"submit": [], "get": [], "stats": []}
    headers = {"Authorization": f"Bearer {running.token}"}
    async with aiohttp.ClientSession(running.url, headers=headers) as session:

        async def timed(name: str, call: Callable[[], Awaitable[Any]]) -> Any:
            began = time.perf_counter()
            answer = await call()
            samples[name].append((time.perf_counter() - began) * 1_000)
            return answer

        async def get(path: str) -> Any:
            async with session.get(path) as response:
                return await _read_answer(response)

        async def submit() -> Any:
            async with session.post("/api/tasks", json={"type": "echo", "params": {}}) as response:
                return await _read_answer(response)

        async def probe() -> None:
            while True:
                task = (await timed("submit", submit))["task_id"]
                await timed("get", partial(get, f"/api/tasks/{task}"))
                await timed("stats", partial(get, "/api/stats"))
                await asyncio.sleep(_POLL_S)

        prober = asyncio.create_task(probe())
        try:
            yield samples
        finally:
            prober.cancel()
            await asyncio.wait([prober])
            if not prober.cancelled():
                prober.result()


async def _read_answer(response: aiohttp.ClientResponse) -> Any:
    if response.status != 200:
        raise RuntimeError(await response.text())
    return await response.json()


def percentile(samples: Sequence[float], part: float) -> float:
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def _is_quiet(counts: dict[str, int]) -> bool:
    return not any(counts[status] for status in ("pending", "assigned", "processing", "waiting", "retrying"))


@asynccontextmanager
async def demo_shop(*arguments: str) -> AsyncIterator[str]:
    """Run the demo shop as a process; gives its address."""
    command = (sys.executable, "-m", "crawlfleet.demo_shop", *arguments)
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield (await asyncio.wait_for(process.stdout.readline(), WITHIN_S)).decode().strip()
    finally:
        process.terminate()
        await process.wait()


async def run_gates(name: str, new_store: Callable[[], str | None], folder: Path, rows: list[Row]) -> None:
    env = {"CRAWLFLEET_ALLOW_HOSTS": "127.0.0.1", "CRAWLFLEET_ALERT_ALLOW_HOSTS": "127.0.0.1"}
    many, few = folder / f"{name}-many", folder / f"{name}-few"
    async with AsyncExitStack() as stack:
        shop = await stack.enter_async_context(site_process("--products", str(TASKS)))
        nasty = await stack.enter_async_context(site_process("--products", "10"))
        running = await stack.enter_async_context(
            installation(many, new_store(), nodes=NODES, slots=TASKS // NODES, env=env)
        )
        gate = Gate(name, running, rows)
        await measure_concurrency(gate, shop, nasty)
        await measure_exactness(gate, "after that")
    async with AsyncExitStack() as stack:
        shop_url = await stack.enter_async_context(demo_shop("--products", str(TASKS), "--delay", "0.05"))
        running = await stack.enter_async_context(installation(few, new_store(), nodes=NODES, slots=10, env=env))
        gate = Gate(name, running, rows)
        await measure_idle_assignment(gate)
        await measure_average(gate, shop_url)
        await measure_alert(gate)
        await measure_exactness(gate, "after that")


def write_table(rows: Sequence[Row], note: str) -> None:
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise SystemExit(f"{PAGE} has no place for the table: a line {BEGIN.strip()} and a line {END.strip()}")
    PAGE.write_text(f"{before}{BEGIN}{format_table(rows)}\n{note}\n{END}{after}")


def machine_note() -> str:
    busy = psutil.cpu_percent(interval=2.0)
    if busy <= BUSY_PERCENT:
        return f"Measured on {psutil.cpu_count()} cores that were {busy:.0f} % busy before."
    return f"**Void**: the machine was {busy:.0f} % busy with something else before the run."


async def measure(only: str | None) -> tuple[list[Row], str]:
    rows: list[Row] = []
    note = machine_note()
    say(note)
    with tempfile.TemporaryDirectory() as folder:
        if only != "postgres":
            await run_gates("SQLite", lambda: None, Path(folder), rows)
        if only != "sqlite":
            with PostgresServer(fsync=True, settings={"shared_buffers": "256MB"}) as server:
                await run_gates("PostgreSQL", server.create_database, Path(folder), rows)
    return rows, note


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["sqlite", "postgres"])
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    arguments = parser.parse_args()
    rows, note = asyncio.run(measure(arguments.only))
    print_table(rows)
    say(note)
    if arguments.write:
        write_table(rows, note)
    if not all(row.is_met for row in rows):
        raise SystemExit("a gate was missed")


if __name__ == "__main__":
    main()
