"""`crawlfleet proxy`: the proxies of nodes' pools, and how they do."""

from __future__ import annotations

from typing import Annotated

import typer

from crawlfleet.cli.command import Call, api_command

app = typer.Typer(no_args_is_help=True)


@api_command(app, "list", "crawlfleet proxy list", "crawlfleet proxy list --pool fast --down --json")
def list_proxies(
    call: Call,
    pool: Annotated[str | None, typer.Option("--pool", help="Only those of this pool.")] = None,
    down: Annotated[bool, typer.Option("--down", help="Only those that are left out now.")] = False,
) -> None:
    """List the proxies that crawls have used, with their health as each node last reported it."""
    call.out.print_listing(
        "proxies",
        call.client.proxies(pool=pool, is_up=False if down else None),
        ("NODE", "POOL", "PROXY", "STATE", "USES", "FAILURES", "LATENCY MS", "LAST FAILURE"),
        lambda proxy: (
            proxy.node_name,
            proxy.pool,
            proxy.proxy,
            "up" if proxy.is_up else f"down until {proxy.down_until}",
            proxy.uses,
            proxy.failures,
            proxy.latency_ms,
            proxy.last_failure,
        ),
        empty="no proxy was used yet: pools are given to nodes by --proxies-file",
    )
