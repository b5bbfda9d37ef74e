"""`crawlfleet queue`: paused and resumed, and their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from crawlfleet.cli.command import Call, api_command
from crawlfleet.cli.exit_codes import usage_error

if TYPE_CHECKING:
    from crawlfleet.client._generated.models import QueueState

app = typer.Typer(no_args_is_help=True)

QueueName = Annotated[str, typer.Argument(help="The queue's name.")]
QueueNames = Annotated[list[str], typer.Argument(help="Names of queues.", show_default=False)]


@api_command(app, "list", "crawlfleet queue list")
def list_queues(call: Call) -> None:
    """List the queues that have pending tasks, are paused or have an order of their own."""
    call.out.print_listing(
        "queues",
        call.client.queues(),
        ("QUEUE", "STATE", "ORDER", "PENDING TASKS"),
        lambda queue: (queue.name, "paused" if queue.is_paused else "open", queue.order, queue.has_pending),
    )


@api_command(app, "pause", "crawlfleet queue pause default", "crawlfleet queue pause slow news")
def pause_queues(call: Call, names: QueueNames) -> None:
    """Pause queues: their tasks are kept and not placed; what runs goes on."""
    _change_queues(call, names, call.client.pause, call.client.pause_many)


@api_command(app, "resume", "crawlfleet queue resume default", "crawlfleet queue resume slow news")
def resume_queues(call: Call, names: QueueNames) -> None:
    """Resume paused queues."""
    _change_queues(call, names, call.client.resume, call.client.resume_many)


@api_command(app, "set", "crawlfleet queue set news --order lifo", "crawlfleet queue set news --order fifo")
def set_order(
    call: Call, name: QueueName, order: Annotated[str, typer.Option("--order", help="fifo, or lifo: the last first.")]
) -> None:
    """Set the order in which a queue's tasks are placed."""
    if order not in ("fifo", "lifo"):
        usage_error(f"--order is fifo or lifo, not {order!r}", "crawlfleet queue set --help")
    done = call.client.set_order(name, "lifo" if order == "lifo" else "fifo")
    already = "" if done.has_changed else " already"
    call.out.print_answer(done, f"{done.name}:{already} {done.order}")


def _change_queues(
    call: Call,
    names: list[str],
    change_one: Callable[[str], QueueState],
    change_many: Callable[[list[str]], Sequence[QueueState]],
) -> None:
    states = [change_one(names[0])] if len(names) == 1 else change_many(names)
    if call.out.is_json:
        call.out.print_json(states[0] if len(names) == 1 else {"queues": states})
        return
    for state in states:
        already = "" if state.has_changed else " already"
        call.out.print_text(f"{state.name}:{already} {'paused' if state.is_paused else 'open'}")
