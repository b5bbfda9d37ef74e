"""`crawlfleet init`: three example configurations to start from."""

from __future__ import annotations

import json as json_format
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crawlfleet.cli.command import JsonOption, local_command
from crawlfleet.cli.exit_codes import Complaint, ExitCode
from crawlfleet.cli.output import Output

if TYPE_CHECKING:
    from crawlfleet.settings.base import Settings

# What a first configuration usually changes; everything else has a default and a line in the reference.
_EXAMPLES: dict[str, dict[str, Any]] = {
    "master": {
        "mode": "master",
        "host": "0.0.0.0",
        "port": 8000,
        "data_dir": "./data/master",
        "task_timeout_s": 3600,
        "max_retries": 3,
        "strategy": "least_loaded",
    },
    "worker": {
        "mode": "worker",
        "masters": ["http://127.0.0.1:8000"],
        "device_id": "worker-001",
        "name": "Worker Node 1",
        "slots": 4,
        "data_dir": "./data/worker-001",
        "enrol_token_file": "./data/enrol.token",
    },
    "standalone": {
        "mode": "standalone",
        "host": "127.0.0.1",
        "port": 8000,
        "data_dir": "./data/standalone",
        "nodes": 2,
        "slots": 4,
    },
}


class Format(StrEnum):
    JSON = "json"
    TOML = "toml"


def add_to(app: typer.Typer) -> None:
    local_command(
        app,
        "init",
        "crawlfleet init",
        "crawlfleet init /etc/crawlfleet --format toml",
        "crawlfleet init --force",
    )(write_examples)


def write_examples(
    folder: Annotated[Path, typer.Argument(help="Where to write them.")] = Path("config"),
    style: Annotated[
        Format, typer.Option("--format", help="toml has every setting with its explanation, json the usual ones.")
    ] = Format.JSON,
    force: Annotated[bool, typer.Option("--force", help="Write over files that are there.")] = False,
    json: JsonOption = False,
) -> None:
    """Write three example configurations: distribution_master, distribution_worker and distribution_standalone.

    The database needs no preparation: a master prepares its store when it starts.
    """
    paths = {mode: folder / f"distribution_{mode}.{style}" for mode in _EXAMPLES}
    if (there := [str(path) for path in paths.values() if path.exists()]) and not force:
        raise Complaint(f"already there: {', '.join(there)}", hint="--force writes over them")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for mode, path in paths.items():
            path.write_text(_example_text(mode, style), encoding="utf-8")
    except OSError as exc:
        raise Complaint(f"cannot write to {folder}: {exc.strerror}", ExitCode.FAILURE) from exc
    out = Output(is_json=json)
    if out.is_json:
        out.print_json({"files": [str(path) for path in paths.values()]})
        return
    for path in paths.values():
        out.print_text(str(path))
    out.print_note(f"next: crawlfleet standalone --config {paths['standalone']}")


def _example_text(mode: str, style: Format) -> str:
    if style is Format.JSON:
        return json_format.dumps(_EXAMPLES[mode], indent=2, ensure_ascii=False) + "\n"
    from crawlfleet.settings.loading import CLASSES

    cls = next(cls for cls in CLASSES if cls.section == mode)
    return _example_toml(cls, _EXAMPLES[mode])


def _example_toml(cls: type[Settings], example: dict[str, Any]) -> str:
    lines = [f"# Settings of a {cls.section}. A line without # is set; the others show the default.", ""]
    lines.append(f'mode = "{cls.section}"')
    for name, field in cls.model_fields.items():
        lines += ["", f"# {field.description}"]
        if name in example:
            # A JSON text, number or list of texts is written the same way in TOML.
            lines.append(f"{name} = {json_format.dumps(example[name], ensure_ascii=False)}")
        else:
            default = cls.shown_default(name) or _toml_value(field.default)
            lines.append(f"# {name} = {default}")
    return "\n".join(lines) + "\n"


def _toml_value(default: Any) -> str:
    match default:
        case None:
            return "..."
        case bool() | int() | float() | str():
            return json_format.dumps(default)
        case _:
            return json_format.dumps(list(default)) if default is not ... else "..."
