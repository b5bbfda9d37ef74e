"""`crawlfleet demo`: see it work, in half a minute, with nothing prepared."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crawlfleet.cli.command import JsonOption, command
from crawlfleet.cli.exits import Complaint, ExitCode
from crawlfleet.cli.output import Output

if TYPE_CHECKING:
    from crawlfleet.bootstrap.demo import Told

_SHOWN = 10


def add_to(app: typer.Typer) -> None:
    command(app, "demo", "crawlfleet demo", "crawlfleet demo --products 2000 --keep")(demo)


def demo(
    products: Annotated[int, typer.Option("--products", min=1, max=20_000, help="How many the shop sells.")] = 600,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the cluster running until Ctrl-C.")] = False,
    json: JsonOption = False,
) -> None:
    """Start a cluster of two nodes and a shop on this machine, crawl the shop, and kill a worker half-way.

    Everything lives in a temporary folder and is gone afterwards.
    """
    import uvloop

    from crawlfleet.observe.logs import configure_logs

    configure_logs("error")
    uvloop.run(_until_interrupted(Output(is_json=json), products, keep))


async def _until_interrupted(out: Output, products: int, keep: bool) -> None:
    try:
        await _demo(out, products, keep)
    except asyncio.CancelledError:
        out.note("Stopped; nothing is left behind.")
        raise typer.Exit(ExitCode.OK if keep else ExitCode.INTERRUPTED) from None


async def _demo(out: Output, products: int, keep: bool) -> None:
    from crawlfleet.bootstrap import demo as parts

    out.note("Starting a master, two nodes and a shop ...")
    async with parts.demo_cluster(products) as running:
        await parts.wait_online(running)
        out.note(f"The cluster is up: {running.url} (API documentation: {running.url}/docs)")
        out.note(f"Crawling {products:,} products of the shop at {running.shop.url} ...")
        with out.bar() as bar:
            line = bar.add_task("crawl", total=None, note="")
            last: list[Told] = []

            def tell(told: Told) -> None:
                if told.killed is not None and not (last and last[-1].killed):
                    out.stderr.print(
                        f"Killing a worker on purpose (kill -9 {told.killed}); its work goes elsewhere ..."
                    )
                last[:] = [told]
                bar.update(line, completed=told.done, total=told.total, note=f"{told.nodes_online} nodes online")

            ids = await parts.crawl(running, tell)
        stats = (await running.client.stats(project_id="demo")).by_status
        items = await parts.products_of(running, ids)
        _report(out, products, stats, items)
        if keep:
            token = f"CRAWLFLEET_TOKEN=$(cat {running.token_file})"
            out.note(f"Running until Ctrl-C. In another terminal: export CRAWLFLEET_URL={running.url} {token}")
            await asyncio.Event().wait()


def _report(out: Output, products: int, stats: dict[str, int], items: list[dict[str, Any]]) -> None:
    found = {item["url"] for item in items}
    if out.is_json:
        out.json({"tasks": stats, "items": len(items), "products": len(found), "expected": products})
    else:
        rows = [(item.get("title"), item.get("price"), item.get("url")) for item in items[:_SHOWN]]
        out.table(("TITLE", "PRICE", "URL"), rows)
        out.text(f"... {len(items):,} products from {stats.get('completed', 0)} tasks, each finished exactly once.")
    if len(items) != products or len(found) != products:
        raise Complaint(f"the shop sells {products} products, the crawl found {len(found)} in {len(items)} items")
