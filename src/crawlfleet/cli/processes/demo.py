"""`crawlfleet demo`: see it work, in half a minute, with nothing prepared."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from crawlfleet.cli.command import JsonOption, local_command
from crawlfleet.cli.exit_codes import Complaint, ExitCode, usage_error
from crawlfleet.cli.output import Output
from crawlfleet.cli.wait.tasks import group_done, group_note

if TYPE_CHECKING:
    from crawlfleet.bootstrap.demo import CrawlProgress, Demo
    from crawlfleet.client._generated.models import CrawlView, GroupView
    from crawlfleet.client.types import ExportFormat

_SHOWN_PRODUCTS = 8
_FORMATS = {".jsonl": "jsonl", ".csv": "csv", ".parquet": "parquet"}


def add_to(app: typer.Typer) -> None:
    local_command(
        app,
        "demo",
        "crawlfleet demo",
        "crawlfleet demo --output products.csv",
        "crawlfleet demo --products 2000 --keep",
    )(run_demo)


def run_demo(
    products: Annotated[int, typer.Option("--products", min=1, max=20_000, help="How many the shop sells.")] = 600,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Keep the products in this file: .jsonl, .csv or .parquet.", metavar="FILE"
        ),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the cluster running until Ctrl-C.")] = False,
    json: JsonOption = False,
) -> None:
    """Start a cluster of three nodes and a shop on this machine, crawl the shop with all of them, and kill a worker
    half-way.

    Everything lives in a temporary folder and is gone afterwards, but for FILE.
    """
    if output is not None:
        _check_output(output)
    out = Output(is_json=json)
    # Before the engine is loaded: a machine that is slow shows at least that it works.
    out.print_note("Starting a master, three nodes and a shop ...")
    import uvloop

    from crawlfleet.observe.logs import configure_logs

    configure_logs("error")
    uvloop.run(_run_until_interrupted(out, products, output, keep))


def _check_output(output: Path) -> None:
    """Now, rather than when the crawl is over."""
    if output.suffix not in _FORMATS:
        usage_error(f"--output: {output.name!r} ends like none of {', '.join(_FORMATS)}")
    if not output.parent.is_dir():
        usage_error(f"--output: there is no folder {output.parent}")
    if _FORMATS[output.suffix] == "parquet":
        from crawlfleet.results.parquet_support import INSTALL_PARQUET, is_parquet_installed

        if not is_parquet_installed():
            usage_error("--output: Parquet needs pyarrow, which is not installed", INSTALL_PARQUET)


async def _run_until_interrupted(out: Output, products: int, output: Path | None, keep: bool) -> None:
    try:
        await _crawl_shop(out, products, output, keep)
    except asyncio.CancelledError:
        out.print_note("Stopped; nothing is left behind.")
        raise typer.Exit(ExitCode.OK if keep else ExitCode.INTERRUPTED) from None


async def _crawl_shop(out: Output, products: int, output: Path | None, keep: bool) -> None:
    from crawlfleet.bootstrap import demo as parts

    async with parts.demo_cluster(products) as running:
        await parts.wait_online(running)
        out.print_note(f"The cluster is up: {running.url} (API documentation: {running.url}/docs)")
        out.print_note(f"Crawling the shop at {running.shop.url}, {products:,} products, with all nodes at once ...")
        group = await _watch_crawl(out, running)
        items = await parts.list_products(running, group.id)
        await _print_report(out, running, group, items, output)
        if keep:
            token = f"CRAWLFLEET_TOKEN=$(cat {running.token_file})"
            out.print_note(f"Running until Ctrl-C. In another terminal: export CRAWLFLEET_URL={running.url} {token}")
            out.print_note(f"and then, for example: crawlfleet group show {group.id}")
            await asyncio.Event().wait()


async def _watch_crawl(out: Output, running: Demo) -> GroupView:
    from crawlfleet.bootstrap import demo as parts

    with out.progress_bar() as bar:
        line = bar.add_task("crawl", total=None, note="")
        last: list[CrawlProgress] = []

        def show_progress(progress: CrawlProgress) -> None:
            if progress.killed is not None and not (last and last[-1].killed):
                out.stderr.print(f"Killing a worker on purpose (kill -9 {progress.killed}); others do its part ...")
            last[:] = [progress]
            done, total = group_done(progress.group)
            note = f"{group_note(progress.group)}, {progress.nodes_online} nodes online"
            bar.update(line, completed=done, total=total, note=note)

        return await parts.crawl_shop(running, show_progress)


async def _print_report(
    out: Output, running: Demo, group: GroupView, items: list[dict[str, Any]], output: Path | None
) -> None:
    assert group.crawl is not None
    expected = running.shop.catalogue
    if out.is_json:
        out.print_json({"group": group, "items": len(items), "products": len(expected.products)})
    else:
        rows = [(item["title"], _price_text(item), item["stock"], item["_url"]) for item in items[:_SHOWN_PRODUCTS]]
        out.print_table(("TITLE", "PRICE", "STOCK", "PAGE"), rows, prose=("TITLE",), drop=("STOCK",))
        out.print_text(
            f"... {len(items):,} products on {group.crawl.pages:,} pages, {_rate_text(group.crawl)}; each page once."
        )
    await _export_products(out, running, group.id, output)
    pages = {item["_url"] for item in items}
    if (
        len(items) != len(expected.products)
        or len(pages) != len(items)
        or group.crawl.pages != len(expected.page_paths())
    ):
        raise Complaint(
            f"the shop has {len(expected.products)} products on {len(expected.page_paths())} pages, "
            f"the crawl found {len(pages)} in {len(items)} items on {group.crawl.pages}"
        )


async def _export_products(out: Output, running: Demo, group_id: str, output: Path | None) -> None:
    path = output or running.token_file.with_name("products.csv")
    try:
        saved = await running.client.save_group_export(
            group_id, path, format=cast("ExportFormat", _FORMATS[path.suffix])
        )
    except OSError as exc:
        raise Complaint(f"--output: cannot write {path}: {exc.strerror or exc}") from exc
    hint = "" if output else " (--output products.csv keeps it)"
    out.print_note(f"Exported to {path.name}: {saved.bytes:,} bytes{hint}.")


def _price_text(item: dict[str, Any]) -> str:
    price = item["price"] or {}
    return f"{price.get('amount', '')} {price.get('currency', '')}".strip()


def _rate_text(crawl: CrawlView) -> str:
    return "" if crawl.rate_per_s is None else f"{crawl.rate_per_s:.0f} pages a second"
