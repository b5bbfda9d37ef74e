"""`crawlfleet product`: products that tasks of the shop family keep."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from crawlfleet.cli.command import Call, api_command
from crawlfleet.cli.exit_codes import Complaint, usage_error
from crawlfleet.cli.output import to_builtins
from crawlfleet.cli.work.export import BomOption, GuardOption, OutputOption, choose_format, write_to_stdout

app = typer.Typer(no_args_is_help=True)

ProjectOption = Annotated[str | None, typer.Option("--project", help="Only those of this project.")]
ShopOption = Annotated[str | None, typer.Option("--shop", help="Only those of this host.")]
OwnIdOption = Annotated[str | None, typer.Option("--id", help="Only the one that its shop calls so.")]
SinceOption = Annotated[
    str | None, typer.Option("--changed-since", help="An instant: new, changed, gone or back since then.")
]
GoneOption = Annotated[bool, typer.Option("--gone", help="Only those that are gone.")]
NotGoneOption = Annotated[bool, typer.Option("--not-gone", help="Only those that are there.")]
FORMATS = ("jsonl", "csv")


def filter_command(name: str, *examples: str) -> Callable[[Callable[..., None]], None]:
    """A command for products by filter: the function gets what was asked for, and its own options."""

    def register_function(function: Callable[..., None]) -> None:
        def run_command(
            call: Call,
            project: ProjectOption = None,
            shop: ShopOption = None,
            product_id: OwnIdOption = None,
            changed_since: SinceOption = None,
            gone: GoneOption = False,
            not_gone: NotGoneOption = False,
            **own: Any,
        ) -> None:
            if gone and not_gone:
                usage_error("--gone and --not-gone: no product is both")
            where = {"project_id": project, "shop": shop, "product_id": product_id, "changed_since": changed_since}
            function(call, where | {"gone": True if gone else False if not_gone else None}, **own)

        *common, _ = inspect.signature(run_command, eval_str=True).parameters.values()
        _, _, *own = inspect.signature(function, eval_str=True).parameters.values()
        run_command.__signature__ = inspect.Signature([*common, *own])  # type: ignore[attr-defined]
        run_command.__name__, run_command.__doc__ = function.__name__, function.__doc__
        api_command(app, name, *examples)(run_command)

    return register_function


@filter_command(
    "list",
    "crawlfleet product list --shop shop.example",
    "crawlfleet product list --project spring --changed-since 2026-05-01T00:00:00Z --json",
    "crawlfleet product list --shop shop.example --gone",
)
def list_products(
    call: Call,
    where: dict[str, Any],
    limit: Annotated[int, typer.Option("--limit", help="How many at most.", min=1)] = 100,
) -> None:
    """List products."""
    call.out.print_listing(
        "products",
        list(call.client.products(**where, limit=limit)),
        ("ID", "SHOP", "THEIR ID", "TITLE", "PRICE", "AVAILABILITY", "CHANGED", "GONE"),
        lambda product: (
            product.id,
            product.shop,
            product.product_id,
            product.title,
            _price_text(product.price, product.currency),
            product.availability,
            product.changed_at,
            product.gone_at,
        ),
        empty="no products",
        prose=("TITLE",),
        drop=("THEIR ID", "CHANGED", "GONE", "AVAILABILITY", "SHOP"),
    )


@api_command(
    app, "show", "crawlfleet product show product-0123456789abcdef", "crawlfleet product show product-... --json"
)
def show_product(
    call: Call, id: Annotated[str, typer.Argument(help="As `product list` shows it.", show_default=False)]
) -> None:
    """Show a product and what has changed of it."""
    detail = call.client.product(id)
    if call.out.is_json:
        call.out.print_json(detail)
        return
    call.out.print_record({name: value for name, value in to_builtins(detail.product).items() if name != "attributes"})
    call.out.print_text("")
    call.out.print_record(detail.product.attributes)
    call.out.print_text("")
    call.out.print_table(
        ("CHANGED", "HOW", "WHAT"),
        [
            (
                change.at,
                change.kind,
                ", ".join(f"{name}: {values[0]} -> {values[1]}" for name, values in change.fields.items()),
            )
            for change in detail.changes
        ],
        prose=("WHAT",),
    )


@filter_command(
    "export",
    "crawlfleet product export --shop shop.example > products.jsonl",
    "crawlfleet product export --format csv --not-gone -o products.csv",
)
def export_products(
    call: Call,
    where: dict[str, Any],
    format: Annotated[str | None, typer.Option("--format", help="jsonl or csv; by the name of the file.")] = None,
    output: OutputOption = None,
    bom: BomOption = False,
    guard: GuardOption = False,
) -> None:
    """Write products as JSON lines or CSV. --json tells what was written."""
    options = {"format": choose_format(format, output, FORMATS), "bom": bom, "guard": guard, **where}
    if output is None:
        write_to_stdout(call, options["format"], lambda: call.client.export_products(**options))
        return
    size = _save_export(call, output, options)
    call.out.print_answer({"file": str(output), "bytes": size}, f"{output}: {size} bytes")


def _save_export(call: Call, output: Path, options: dict[str, Any]) -> int:
    """Under another name until all of it is there: half a file must not pass for a whole one."""
    part = output.with_name(f"{output.name}.part")
    try:
        with part.open("wb") as file:
            size = sum(file.write(data) for data in call.client.export_products(**options))
        part.replace(output)
    except OSError as exc:
        raise Complaint(f"--output: cannot write {output}: {exc.strerror or exc}") from exc
    finally:
        part.unlink(missing_ok=True)
    return size


def _price_text(amount: str | None, currency: str | None) -> str | None:
    return amount if amount is None or currency is None else f"{amount} {currency}"
