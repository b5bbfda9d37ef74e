"""Writes the references that would otherwise drift from the code: docs/configuration.md from the settings classes, and
docs/cli.md from the commands. `--check` only says whether the files are as they should be.

    python scripts/generate_docs.py [--check]
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from crawlfleet.cli.app import app
from crawlfleet.settings import legacy_names
from crawlfleet.settings.base import Settings
from crawlfleet.settings.client import ClientSettings
from crawlfleet.settings.master import MasterSettings, StandaloneSettings
from crawlfleet.settings.worker import WorkerSettings

DOCS = Path(__file__).resolve().parent.parent / "docs"
_TITLES: dict[type[Settings], str] = {
    MasterSettings: "Master",
    StandaloneSettings: "Standalone",
    WorkerSettings: "Worker",
    ClientSettings: "Command line and client",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit code 1 when a file is out of date")
    is_check = parser.parse_args().check
    stale = []
    for path, text in {DOCS / "configuration.md": configuration_text(), DOCS / "cli.md": cli_text()}.items():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            stale.append(path.name)
            if not is_check:
                path.write_text(text, encoding="utf-8")
                print(f"wrote docs/{path.name}")
    if stale and is_check:
        print(f"out of date: {', '.join(stale)}", file=sys.stderr)
        return 1
    return 0


def configuration_text() -> str:
    return "\n".join([_CONFIGURATION_HEAD, *_tables(), *_source_names()]) + "\n"


_CONFIGURATION_HEAD = """\
# Configuration

Written by `scripts/generate_docs.py` from the settings classes.

A setting is looked for in this order; the last place that has it wins:

1. its default
2. a file, named by `--config` or `CRAWLFLEET_CONFIG`: TOML, YAML or JSON, by the end of its name
3. the environment: `CRAWLFLEET_` and the name in capitals, such as `CRAWLFLEET_PORT`
4. the flag of the command, where it has one, such as `--port`

Lists are written with commas in the environment: `CRAWLFLEET_ALLOW_HOSTS=shop.local,127.0.0.1`.
One file may serve several processes: settings at its top are for all of them, those in a table `master`,
`standalone`, `worker` or `client` only for that one.

`crawlfleet config show --mode MODE` prints every value with the place it came from. A wrong value, an unknown name or
a placeholder stops the start with exit code 2 and a message that names the setting and that place.
`crawlfleet init` writes three examples.
"""


def _tables() -> Iterator[str]:
    for cls, title in _TITLES.items():
        yield f"## {title}\n"
        if cls is StandaloneSettings:
            yield "All settings of a master, and:\n"
        yield "| setting | default | what it is |\n|---|---|---|"
        for name, field in cls.model_fields.items():
            if cls is StandaloneSettings and name in MasterSettings.model_fields:
                continue
            yield f"| `{name}` | {_default(cls, name, field.default)} | {field.description} |"
        yield ""


def _default(cls: type[Settings], name: str, default: Any) -> str:
    if (shown := cls.shown_default(name)) is not None:
        return f"`{shown}`" if re.match(r"[~a-z]+[:/]", shown) else shown
    if cls.model_fields[name].is_required():
        return "needed"
    if default is None:
        return "none"
    if isinstance(default, tuple | dict) and not default:
        return "empty"
    return f"`{default if isinstance(default, str) else json.dumps(default)}`"


def _source_names() -> Iterator[str]:
    yield "## Names from other configurations\n"
    yield (
        "These names load too. What means nothing here is listed by `crawlfleet config show` as ignored, and by a\n"
        "process that starts with it.\n"
    )
    yield "| name | means |\n|---|---|"
    for name, meant in legacy_names.MEANING.items():
        yield f"| `{name}` | {', '.join(f'`{setting}` of a {section}' for section, setting in meant.items())} |"
    for name, reason in legacy_names.NO_MEANING.items():
        yield f"| `{name}` | ignored: {reason} |"


def cli_text() -> str:
    root: Any = get_command(app)
    lines = [
        "# Command line",
        "",
        "Written by `scripts/generate_docs.py` from the commands.",
        "",
        "Data goes to standard output, talk to standard error. `--json` prints JSON.",
        "",
        "| exit code | meaning |",
        "|---|---|",
        "| 0 | done |",
        "| 1 | failed |",
        "| 2 | a wrong option or setting |",
        "| 3 | not found |",
        "| 4 | a task that was waited for did not complete |",
        "| 130 | interrupted |",
        "",
    ]
    for path, command in _commands(root, "crawlfleet"):
        lines += [f"## {path}", "", *_about(command), *_parameters(command)]
    return "\n".join(lines).rstrip() + "\n"


def _commands(group: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def _about(command: Any) -> list[str]:
    text, _, examples = command.help.replace("\\[", "[").partition("\b\nExamples:\n")
    shown = [line.removeprefix("  ") for line in examples.rstrip().splitlines()]
    return [text.strip(), "", "```sh", *shown, "```", ""]


def _parameters(command: Any) -> list[str]:
    rows = []
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            word = parameter.metavar or str(parameter.name).upper()
            name = word if parameter.required else f"[{word}]"
        else:
            name = ", ".join(parameter.opts)
        about = " ".join((parameter.help or "").split())
        rows.append(f"| `{name}` | {about.replace('|', chr(92) + '|')} |")
    return ["| option | what it does |", "|---|---|", *rows, ""] if rows else []


if __name__ == "__main__":
    raise SystemExit(main())
