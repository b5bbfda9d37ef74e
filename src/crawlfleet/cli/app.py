"""The `crawlfleet` command: the root to which every noun's commands are added.

Each module imports only what its options need; clients, settings and servers are imported inside the commands, so
that `--help` is quick.
"""

from __future__ import annotations

from typing import Annotated

import typer

import crawlfleet
from crawlfleet.cli.admin import audit, config, event, init, log_level, project, status, token
from crawlfleet.cli.alerts import alert
from crawlfleet.cli.command import with_examples
from crawlfleet.cli.exit_codes import RootGroup
from crawlfleet.cli.fleet import cluster, cookie_jar, host, node, proxy, queue
from crawlfleet.cli.maintenance import backup, bench, clean_up, doctor, repair, reset, stats
from crawlfleet.cli.processes import demo, distribute, master, standalone, start_workers, worker
from crawlfleet.cli.work import crawl, dead_letter, flow, group, product, schedule, submit_task, task_changes, task_type

HELP = """Manage a fleet of crawler nodes: submit tasks, see where they run, and why one waits.

\b
Examples:
  crawlfleet demo
  crawlfleet standalone
  crawlfleet task submit echo --params '{"hello": "world"}' --wait

Exit codes: 0 done, 1 failed, 2 wrong option or setting, 3 not found, 4 a task did not complete, 130 interrupted.
"""

app = typer.Typer(
    name="crawlfleet",
    help=HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    cls=RootGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def add_group(group: typer.Typer, name: str, about: str, *examples: str) -> None:
    """Add the commands of a noun, with help that ends in examples as that of each command does."""
    app.add_typer(group, name=name, help=with_examples(about, *examples), short_help=about)


for single in (
    demo,
    standalone,
    master,
    worker,
    start_workers,
    distribute,
    crawl,
    init,
    status,
    submit_task,
    project,
    doctor,
    backup,
    reset,
    clean_up,
    stats,
    bench,
):
    single.add_to(app)
add_group(
    task_changes.app,
    "task",
    "Submit tasks, watch them, change them, read what they left.",
    "crawlfleet task submit web_crawl -p url=https://example.com -p depth=1",
    "crawlfleet task list --status failed,timeout",
    "crawlfleet task retry --project shop --status failed",
)
add_group(
    group.app,
    "group",
    "Groups: tasks as one; add, shard, watch, cancel, retry, export, remove.",
    "crawlfleet group shard web_crawl --over urls --values urls.txt --size 100",
    "crawlfleet group list --kind crawl",
    "crawlfleet group list --project shop --json",
)
add_group(
    node.app,
    "node",
    "Nodes: list, show, drain, make ready, set slots, remove.",
    "crawlfleet node list",
    "crawlfleet node drain worker-001",
    "crawlfleet node ready worker-001",
)
add_group(
    cluster.app,
    "cluster",
    "Clusters: list, show, what they use, whether they get work.",
    "crawlfleet cluster list",
    "crawlfleet cluster usage default",
)
add_group(
    dead_letter.app,
    "dead-letter",
    "Tasks that were given up: list, group, replay, drop.",
    "crawlfleet dead-letter groups",
    "crawlfleet dead-letter list --project shop",
)
add_group(
    flow.app,
    "flow",
    "Graphs of tasks: submit, show, watch, cancel, resume.",
    "crawlfleet flow submit flow.yaml --wait",
    "crawlfleet flow list",
)
add_group(
    queue.app,
    "queue",
    "Queues: list, pause, resume, set their order.",
    "crawlfleet queue list",
    "crawlfleet queue pause default",
    "crawlfleet queue resume default",
)
add_group(
    project.app,
    "project",
    "Projects: weights and quotas, and what is used of them.",
    "crawlfleet project set shop --weight 3 --max-running 50",
    "crawlfleet project list",
)
add_group(
    schedule.app,
    "schedule",
    "Schedules: add, list, show, pause, resume, run, remove, preview.",
    "crawlfleet schedule add echo --every 15m --name heartbeat",
    "crawlfleet schedule list",
    "crawlfleet schedule next --cron '0 3 * * *'",
)
add_group(
    host.app,
    "host",
    "Target hosts: their budgets, back-offs, and who asks them.",
    "crawlfleet host list",
    "crawlfleet host set example.com --rate 20 --concurrency 8",
    "crawlfleet host show example.com",
)
add_group(
    product.app,
    "product",
    "Products that were found in shops: list, show, export.",
    "crawlfleet product list --shop shop.example",
    "crawlfleet product export -o products.csv",
)
add_group(
    proxy.app, "proxy", "Proxies of nodes' pools: how they do.", "crawlfleet proxy list", "crawlfleet proxy list --down"
)
add_group(
    cookie_jar.app,
    "cookie-jar",
    "Cookies that crawls keep over executions: list, remove.",
    "crawlfleet cookie-jar list",
    "crawlfleet cookie-jar remove login --project shop",
)
add_group(
    repair.app,
    "repair",
    "Repairs: counters, the ready index, results, the database.",
    "crawlfleet repair counters --dry-run",
    "crawlfleet repair store --data-dir /var/lib/crawlfleet",
)
add_group(
    token.app,
    "token",
    "Tokens: create, list, rotate, revoke.",
    "crawlfleet token create --role enrol --uses 1 --expires 1h",
    "crawlfleet token list",
)
add_group(
    config.app,
    "config",
    "Settings of a process, and configuration of a cluster at run time.",
    "crawlfleet config show",
    "crawlfleet config get",
    "crawlfleet config set strategy=round_robin",
    "crawlfleet config history",
)
add_group(
    log_level.app,
    "log-level",
    "How much masters and nodes log, changed while they run.",
    "crawlfleet log-level show",
    "crawlfleet log-level set debug",
    "crawlfleet log-level set warning --nodes --cluster eu",
)
add_group(
    task_type.app,
    "type",
    "Task types: list, show their parameters.",
    "crawlfleet type list",
    "crawlfleet type show web_crawl",
)
add_group(
    event.app,
    "event",
    "Events: list what happened, watch what happens.",
    "crawlfleet event list --kind task.failed",
    "crawlfleet event watch",
)
add_group(
    alert.app,
    "alert",
    "Alerts: what fires; rules, channels, silences and notices.",
    "crawlfleet alert list",
    "crawlfleet alert rule set queue_size --threshold 5000",
    "crawlfleet alert channel test ops",
)
add_group(audit.app, "audit", "The audit log: who changed what, when and from where.", "crawlfleet audit list")


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"crawlfleet {crawlfleet.__version__}")
        raise typer.Exit


@app.callback()
def root_command(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave."),
    ] = False,
) -> None:
    pass


def main() -> None:
    app()
