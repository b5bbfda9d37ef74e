"""Exit codes, and how an error is told: what went wrong, then a hint, on standard error."""

from __future__ import annotations

import re
import shutil
import sys
from enum import IntEnum
from typing import Any, NoReturn, TextIO, cast

import typer
from typer.core import TyperGroup

from crawlfleet.cli.table_layout import wrap_words
from crawlfleet.cli.usage_messages import usage_message
from crawlfleet.errors import ConfigError, CrawlfleetError
from crawlfleet.observe.secret_masking import mask_secrets
from crawlfleet.observe.terminal_text import escape_controls


class ExitCode(IntEnum):
    OK = 0
    FAILURE = 1
    USAGE = 2
    """A wrong option or setting."""
    NOT_FOUND = 3
    TASK_NOT_COMPLETED = 4
    """A task that was waited for ended in another way than completed."""
    INTERRUPTED = 130


# The library keeps the class of all usage errors to itself and offers one of its children.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


class Complaint(CrawlfleetError):
    """Something a command itself has to say, with the exit code for it."""

    def __init__(self, detail: str, code: ExitCode = ExitCode.FAILURE, hint: str | None = None) -> None:
        super().__init__(detail)
        self.exit_code = code
        self.hint = hint


class RootGroup(TyperGroup):
    """Every command runs inside this one, so every error of ours is told in one way."""

    def make_context(self, *args: Any, **more: Any) -> Any:
        try:
            return super().make_context(*args, **more)
        except _UsageError as exc:
            raise _report_usage_error(exc) from exc

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except CrawlfleetError as exc:
            print_error(exc)
            raise typer.Exit(exit_code_for(exc)) from exc
        except _UsageError as exc:
            raise _report_usage_error(exc) from exc


def _report_usage_error(exc: Any) -> Exception:
    """A wrong command or option, in the form of every other error; a command without any shows its help."""
    if type(exc).__name__ == "NoArgsIsHelpError":
        return cast(Exception, exc)
    print_to_stderr(f"error: {usage_message(exc.format_message())}")
    path = exc.ctx.command_path if exc.ctx is not None else "crawlfleet"
    print_to_stderr(f"hint: {path} --help")
    return typer.Exit(ExitCode.USAGE)


def print_error(exc: CrawlfleetError) -> None:
    # An error of a setting may quote an address with a password in it.
    print_to_stderr(f"error: {mask_secrets(str(exc)) if isinstance(exc, ConfigError) else exc}")
    # A master's hints are for those who speak HTTP.
    own_hint = _HINTS.get(getattr(exc, "error_code", exc.code)) or _hint_from_detail(str(exc))
    if hint := own_hint or getattr(exc, "hint", None):
        print_to_stderr(f"hint: {hint}")


def _hint_from_detail(detail: str) -> str | None:
    """Ids are easily given to the wrong command: a crawl over many nodes and a flow are groups."""
    if matched := re.match(r"no (?:task|group) '((task|group)-[0-9a-f]{16})'$", detail):
        return f"it is the id of a {matched[2]}: crawlfleet {matched[2]} --help"
    if matched := re.match(r"no (task|group|flow|schedule|node|cluster|token|product) \S+$", detail):
        return f"crawlfleet {matched[1]} list shows those there are"
    return None


def exit_code_for(exc: CrawlfleetError) -> ExitCode:
    if isinstance(exc, Complaint):
        return exc.exit_code
    if isinstance(exc, ConfigError):
        return ExitCode.USAGE
    if getattr(exc, "status", exc.http_status) == 404:
        return ExitCode.NOT_FOUND
    return ExitCode.FAILURE


def print_to_stderr(text: str) -> None:
    """To the person, not to the program that reads standard output. A terminal gets lines broken between words."""
    width = terminal_width(sys.stderr)
    lines = [line for part in escape_controls(text).split("\n") for line in wrap_words(part, width)]
    sys.stderr.write("\n".join(lines) + "\n")


def terminal_width(stream: TextIO) -> int | None:
    """The columns of the terminal that a stream writes to; None where it is a file or a pipe, whose lines are never
    cut."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def usage_error(detail: str, hint: str | None = None) -> NoReturn:
    raise Complaint(detail, ExitCode.USAGE, hint)


_HINTS = {
    "already_final": "crawlfleet task retry opens a task again that has ended",
    "does_not_fit": "crawlfleet task why says which filter removed how many nodes",
    "group_incomplete": "--partial gives what there is; crawlfleet group retry tries the others again",
    "group_open": "crawlfleet group cancel ends what is open",
    "idempotency_mismatch": "use another --idempotency-key for something else",
    "not_authenticated": "is --token (or CRAWLFLEET_TOKEN) right? crawlfleet token create makes another",
    "not_final": "crawlfleet task cancel stops a task that has not ended",
    "part_of_flow": "crawlfleet flow cancel, resume and drop are for the whole",
    "token_already_made": "crawlfleet token rotate gives it another secret",
    "unknown_type": "crawlfleet task types lists those that are known; a node that runs it makes a type known",
    "unreachable": "is the master running? crawlfleet standalone starts one; --url names another",
}
