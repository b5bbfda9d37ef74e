"""`crawlfleet doctor`: checks of an installation, by its master or, without one, on its data folder and store."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from crawlfleet.cli.command import Call, api_command
from crawlfleet.cli.exit_codes import ExitCode, terminal_width, usage_error
from crawlfleet.cli.maintenance.installation_options import StoreOption, load_installation
from crawlfleet.cli.processes.process_options import ConfigOption
from crawlfleet.cli.table_layout import wrap_words

if TYPE_CHECKING:
    from crawlfleet.cli.output import Output
    from crawlfleet.scheduling.doctor.findings import Check

_ORDER = ("error", "warning", "note")
_INDENT = 14
_SERVER_ERROR = 500


class FindingLine(NamedTuple):
    """One finding as it is shown, wherever the check was made."""

    check: str
    area: str
    severity: str
    sentence: str
    hint: str


class Examination(NamedTuple):
    source: str
    """Where the checks were made."""
    findings: Sequence[FindingLine]


def add_to(app: typer.Typer) -> None:
    api_command(
        app,
        "doctor",
        "crawlfleet doctor",
        "crawlfleet doctor --only D2,hosts",
        "crawlfleet doctor --strict --json",
        "crawlfleet doctor --offline --data-dir /var/lib/crawlfleet",
    )(examine_command)


def examine_command(
    call: Call,
    only: Annotated[
        str | None, typer.Option("--only", help="Ids of checks and areas, with commas: D2,hosts. All if not given.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 on warnings too.")] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="Ask no master: look at the data folder and the store.")
    ] = False,
    store: StoreOption = None,
    config: ConfigOption = None,
) -> None:
    """Check an installation: store, masters, nodes, waiting work, hosts, tokens, alerts, backups.

    A master makes the checks if one answers; else they are made here, on the data folder and its store, which are
    only read. Exit code 1 when there are errors. The checks are listed in the documentation (doctor).
    """
    from crawlfleet.scheduling.doctor.check_list import select_checks

    try:
        checks = select_checks((only or "").split(","))
    except ValueError as exc:
        usage_error(f"--only: {exc}")
    names = [name.strip() for name in (only or "").split(",") if name.strip()]
    examination = None if offline else _ask_master(call, names, may_be_away=not call.has_flag("--url"))
    if examination is None:
        examination = _examine_here(call, config, store, checks)
    _print_examination(call.out, examination)
    severities = {finding.severity for finding in examination.findings}
    if "error" in severities or (strict and "warning" in severities):
        raise typer.Exit(ExitCode.FAILURE)


def _ask_master(call: Call, only: Sequence[str], *, may_be_away: bool) -> Examination | None:
    """The checks as a master makes them; None where none can, unless the user named one."""
    from crawlfleet.client.errors import ApiError, NoEndpoint, Unreachable

    try:
        view = call.client.doctor(only)
    except (NoEndpoint, Unreachable, ApiError) as exc:
        is_unwell = not isinstance(exc, ApiError) or exc.status >= _SERVER_ERROR
        if not may_be_away or not is_unwell:
            raise
        if isinstance(exc, Unreachable):
            call.out.print_note("note: no master answers; the checks are made here")
        elif isinstance(exc, ApiError):
            call.out.print_note(f"note: the master cannot make the checks ({exc}); they are made here")
        return None
    findings = [FindingLine(each.check, each.area, each.severity, each.sentence, each.hint) for each in view.findings]
    return Examination(f"the master at {call.client.url}", findings)


def _examine_here(call: Call, config: Path | None, store: str | None, checks: Sequence[Check]) -> Examination:
    from crawlfleet.bootstrap.maintenance.offline_doctor import examine_installation

    data_dir = call.flag("--data-dir")
    settings = load_installation(config, data_dir if isinstance(data_dir, Path) else None, store, None)
    findings = asyncio.run(examine_installation(settings, checks))
    lines = [FindingLine(each.check, each.area, each.severity.value, each.sentence, each.hint) for each in findings]
    return Examination(str(settings.data_dir), lines)


def _print_examination(out: Output, examination: Examination) -> None:
    findings = examination.findings
    counts = {severity: sum(each.severity == severity for each in findings) for severity in (*_ORDER, "ok")}
    if out.is_json:
        out.print_json(
            {
                "source": examination.source,
                "counts": counts,
                "findings": [finding._asdict() for finding in findings],
            }
        )
        return
    for severity in _ORDER:
        for finding in findings:
            if finding.severity == severity:
                _print_finding(out, finding)
    fine = [finding.check for finding in findings if finding.severity == "ok"]
    if fine:
        _print_wrapped(out, "ok", ", ".join(fine))
    count = len({finding.check for finding in findings})
    checks = "1 check" if count == 1 else f"{count} checks"
    words = ", ".join(
        f"{count} {name if count == 1 or name == 'ok' else name + 's'}" for name, count in counts.items() if count
    )
    out.print_sentence(f"{checks} of {examination.source}: {words}")


def _print_finding(out: Output, finding: FindingLine) -> None:
    _print_wrapped(out, f"{finding.severity:<8} {finding.check}", finding.sentence)
    if finding.hint:
        _print_wrapped(out, "", f"hint: {finding.hint}")


def _print_wrapped(out: Output, head: str, text: str) -> None:
    """Print a head and a text beside it, which goes on below itself where a terminal is narrow."""
    width = terminal_width(sys.stdout)
    lines = wrap_words(text, None if width is None else max(20, width - _INDENT))
    for number, line in enumerate(lines):
        out.print_text(f"{head if number == 0 else '':<{_INDENT}}{line}")
