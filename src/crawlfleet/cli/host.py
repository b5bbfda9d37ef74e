"""`crawlfleet host`: target hosts, what may be asked of them, and how they answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from crawlfleet.cli.command import Call, api_command
from crawlfleet.cli.exits import usage_error
from crawlfleet.cli.output import plain

if TYPE_CHECKING:
    from crawlfleet.client.models import HostDetail

app = typer.Typer(no_args_is_help=True)

HostName = Annotated[
    str, typer.Argument(help="A name or an address, with its port where that is an unusual one.", show_default=False)
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
    found = list(call.client.hosts(q=match, backing_off=backing_off or None, is_set=is_set or None, limit=limit))
    call.out.listing(
        "hosts", found,
        ("HOST", "RATE", "CONCURRENCY", "DELAY", "RATE NOW", "REQUESTS", "REFUSED", "BLOCKED", "BACK-OFF UNTIL"),
        lambda host: (host.name, host.budget.rate, host.budget.concurrency, host.budget.delay_s, host.rate_now,
                      host.requests, host.refused, host.blocked, host.backoff_until),
        empty="no host was asked for anything yet",
    )  # fmt: skip


@api_command(app, "show", "crawlfleet host show example.com", "crawlfleet host show example.com:8080 --json")
def show(call: Call, host: HostName) -> None:
    """Show a host: its budget and where that comes from, who holds parts of it, and who waits."""
    _tell(call, call.client.host(host))


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
    _tell(call, call.client.put_host(host, rate=rate, concurrency=concurrency, delay_s=delay))


@api_command(app, "reset", "crawlfleet host reset example.com")
def reset(call: Call, host: HostName) -> None:
    """Give a host the default budget again."""
    _tell(call, call.client.reset_host(host))


@api_command(app, "forgive", "crawlfleet host forgive example.com")
def forgive(call: Call, host: HostName) -> None:
    """End a host's back-off now."""
    done = call.client.forgive_host(host)
    call.out.answer(done, f"{done.name}: {'forgiven' if done.has_changed else 'was in no back-off'}")


def _tell(call: Call, found: HostDetail) -> None:
    if call.out.is_json:
        call.out.json(found)
        return
    budget = found.host.budget
    call.out.record({
        **{name: value for name, value in plain(found.host).items() if name != "budget"},
        "rate": f"{budget.rate:g}/s ({budget.rate_from})",
        "concurrency": f"{budget.concurrency} ({budget.concurrency_from})",
        "delay": f"{budget.delay_s:g} s ({budget.delay_from})",
    })  # fmt: skip
    if found.holders:
        call.out.text("")
        call.out.table(
            ("HOLDER", "RATE", "CONCURRENCY"), [(one.node_id, one.rate, one.concurrency) for one in found.holders]
        )
    if found.waiting:
        call.out.text("")
        call.out.table(("WAITING", "WANTED"), [(one.node_id, one.wanted) for one in found.waiting])
