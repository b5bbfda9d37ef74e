"""`crawlfleet host`: target hosts, what may be asked of them, and how they answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from crawlfleet.cli.command import Call, api_command
from crawlfleet.cli.exit_codes import usage_error
from crawlfleet.cli.output import to_builtins

if TYPE_CHECKING:
    from crawlfleet.client._generated.models import FiguresView, HostDetail

app = typer.Typer(no_args_is_help=True)


def _host_from_url(text: str) -> str:
    """The host of an address, where one is given: people paste what stands in their browser."""
    return urlsplit(text).netloc.rpartition("@")[2] or text if "://" in text else text


HostName = Annotated[
    str,
    typer.Argument(
        help="A name or an address, with its port where that is an unusual one; of a URL, its host counts.",
        show_default=False,
        callback=_host_from_url,
    ),
]


@api_command(app, "list", "crawlfleet host list", "crawlfleet host list --backing-off --json")
def list_hosts(
    call: Call,
    match: Annotated[str | None, typer.Option("--match", help="Only those whose name contains this.")] = None,
    backing_off: Annotated[bool, typer.Option("--backing-off", help="Only those that are left alone now.")] = False,
    is_set: Annotated[bool, typer.Option("--set", help="Only those with a budget of their own.")] = False,
    limit: Annotated[int, typer.Option("--limit", help="How many at most.", min=1)] = 100,
) -> None:
    """List hosts that were asked for something, or have a budget of their own."""
    hosts = list(call.client.hosts(q=match, backing_off=backing_off or None, is_set=is_set or None, limit=limit))
    call.out.print_listing(
        "hosts",
        hosts,
        ("HOST", "RATE", "CONCURRENCY", "DELAY", "RATE NOW", "REQUESTS", "REFUSED", "BLOCKED", "BACK-OFF UNTIL"),
        lambda host: (
            host.name,
            host.budget.rate,
            host.budget.concurrency,
            host.budget.delay_s,
            host.rate_now,
            host.requests,
            host.refused,
            host.blocked,
            host.backoff_until,
        ),
        empty="no host was asked for anything yet",
        drop=("BLOCKED", "REFUSED", "DELAY", "RATE NOW", "REQUESTS"),
    )


@api_command(app, "show", "crawlfleet host show example.com", "crawlfleet host show example.com:8080 --json")
def show_host(call: Call, host: HostName) -> None:
    """Show a host: its budget and where that comes from, who holds parts of it, and who waits."""
    _print_host(call, call.client.host(host))


@api_command(
    app,
    "history",
    "crawlfleet host history example.com",
    "crawlfleet host history example.com --span hour --limit 24",
    "crawlfleet host history '*' --json",
)
def show_history(
    call: Call,
    host: HostName,
    span: Annotated[str, typer.Option("--span", help="Of each line: minute or hour.")] = "minute",
    since: Annotated[str | None, typer.Option("--since", help="Lines from this instant on (ISO 8601).")] = None,
    until: Annotated[str | None, typer.Option("--until", help="Lines before this instant.")] = None,
    limit: Annotated[int, typer.Option("--limit", help="How many at most, the newest.", min=1, max=500)] = 60,
) -> None:
    """Show what was counted of a host by minute or hour, over all nodes; '*' is all hosts together."""
    history = call.client.host_history(host, span=span, since=since, until=until, limit=limit)
    if call.out.is_json:
        call.out.print_json(history)
        return
    call.out.print_table(
        ("AT", *_COLUMNS),
        [(point.at, *_figure_cells(point.counted)) for point in history.points],
        empty=f"nothing was counted of {history.name} in that time",
        drop=_DROPPED,
    )


@api_command(
    app, "set", "crawlfleet host set example.com --rate 20 --concurrency 8", "crawlfleet host set example.com --delay 5"
)
def set_budget(
    call: Call,
    host: HostName,
    rate: Annotated[float | None, typer.Option("--rate", help="Requests a second, over all nodes.")] = None,
    concurrency: Annotated[int | None, typer.Option("--concurrency", help="Requests under way at once.")] = None,
    delay: Annotated[float | None, typer.Option("--delay", help="Seconds between any two requests.")] = None,
) -> None:
    """Set a host's budget. What is left out has its default."""
    if rate is None and concurrency is None and delay is None:
        usage_error("say at least one of --rate, --concurrency, --delay", "crawlfleet host reset takes a budget back")
    _print_host(call, call.client.put_host(host, rate=rate, concurrency=concurrency, delay_s=delay))


@api_command(app, "reset", "crawlfleet host reset example.com")
def reset_budget(call: Call, host: HostName) -> None:
    """Give a host the default budget again."""
    _print_host(call, call.client.reset_host(host))


@api_command(app, "forgive", "crawlfleet host forgive example.com")
def forgive_host(call: Call, host: HostName) -> None:
    """End a host's back-off now."""
    done = call.client.forgive_host(host)
    call.out.print_answer(done, f"{done.name}: {'forgiven' if done.has_changed else 'was in no back-off'}")


def _print_host(call: Call, detail: HostDetail) -> None:
    if call.out.is_json:
        call.out.print_json(detail)
        return
    budget = detail.host.budget
    call.out.print_record(
        {
            **{name: value for name, value in to_builtins(detail.host).items() if name != "budget"},
            "rate": f"{budget.rate:g}/s ({budget.rate_from})",
            "concurrency": f"{budget.concurrency} ({budget.concurrency_from})",
            "delay": f"{budget.delay_s:g} s ({budget.delay_from})",
        }
    )
    _print_figures(call, detail)
    if detail.holders:
        call.out.print_text("")
        call.out.print_table(
            ("HOLDER", "RATE", "CONCURRENCY"),
            [(holder.node_id, holder.rate, holder.concurrency) for holder in detail.holders],
        )
    if detail.waiting:
        call.out.print_text("")
        call.out.print_table(("WAITING", "WANTED"), [(waiter.node_id, waiter.wanted) for waiter in detail.waiting])


def _print_figures(call: Call, detail: HostDetail) -> None:
    spans = (("last 5 minutes", detail.figures.recent), ("in all", detail.figures.total))
    rows = [(name, *_figure_cells(figures)) for name, figures in spans if figures is not None]
    if rows:
        call.out.print_text("")
        call.out.print_table(("COUNTED", *_COLUMNS), rows, drop=_DROPPED)
        errors = detail.figures.total.errors if detail.figures.total is not None else {}
        if errors:
            call.out.print_text("errors: " + ", ".join(f"{kind} {count:,}" for kind, count in errors.items()))


_COLUMNS = (
    "REQUESTS",
    "PER S",
    "PAGES",
    "KB",
    "2XX",
    "3XX",
    "4XX",
    "5XX",
    "429",
    "503",
    "BLOCKED",
    "ERRORS",
    "P50 MS",
    "P95 MS",
)

_DROPPED = ("KB", "3XX", "P50 MS", "503", "429", "BLOCKED", "PAGES", "2XX")


def _figure_cells(figures: FiguresView) -> tuple[object, ...]:
    statuses = [figures.statuses.get(name, 0) for name in ("2xx", "3xx", "4xx", "5xx")]
    return (
        figures.requests,
        figures.requests_per_s,
        figures.pages,
        round(figures.bytes / 1000),
        *statuses,
        figures.too_many,
        figures.unavailable,
        figures.blocked,
        sum(figures.errors.values()),
        figures.answer_ms.p50,
        figures.answer_ms.p95,
    )
