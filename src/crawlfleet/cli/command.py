"""How a command is declared: its help always ends in examples, it always takes --json, and one that calls a master
always takes --url, --token, --data-dir and --ca-file."""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crawlfleet.cli.output import Output

if TYPE_CHECKING:
    from crawlfleet.client import Client

Command = Callable[..., None]

EXAMPLE_CHARS = 74
_PANEL = "Which master"
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
_COMMON: dict[str, Any] = {
    "url": Annotated[
        str | None, typer.Option("--url", help="A master's address (or CRAWLFLEET_URL).", rich_help_panel=_PANEL)
    ],
    "token": Annotated[
        str | None, typer.Option("--token", help="Your token (or CRAWLFLEET_TOKEN).", rich_help_panel=_PANEL)
    ],
    "data_dir": Annotated[
        Path | None,
        typer.Option(
            "--data-dir",
            help="An installation on this machine, whose address and token to use (or CRAWLFLEET_DATA_DIR).",
            rich_help_panel=_PANEL,
        ),
    ],
    "ca_file": Annotated[
        Path | None,
        typer.Option("--ca-file", help="Certificates (PEM) to trust (or CRAWLFLEET_CA_FILE).", rich_help_panel=_PANEL),
    ],
}


class Call:
    """A command's way to the master and to the person."""

    def __init__(self, out: Output, flags: dict[str, object]) -> None:
        self.out = out
        self._flags = flags

    @functools.cached_property
    def client(self) -> Client:
        # Loaded when the first call is made: --help and a wrong option should not wait for an HTTP library.
        from crawlfleet.client import Client
        from crawlfleet.client.transport.endpoint import find_endpoint
        from crawlfleet.settings.client import ClientSettings
        from crawlfleet.settings.loading import load_settings

        file = os.environ.get("CRAWLFLEET_CONFIG")
        settings = load_settings(ClientSettings, Path(file) if file else None, os.environ, self._flags).settings
        endpoint = find_endpoint(settings.url, settings.token, settings.data_dir)
        return Client(endpoint.url, endpoint.token, ca_file=settings.ca_file)

    def flag(self, name: str) -> object:
        """The value of a common option, such as --data-dir; None where it was not given."""
        return self._flags.get(name)

    def has_flag(self, name: str) -> bool:
        return self.flag(name) is not None

    def close(self) -> None:
        if "client" in self.__dict__:
            self.client.close()


def local_command(app: typer.Typer, name: str, *examples: str, **options: Any) -> Callable[[Command], Command]:
    """A command that needs no master. It takes `json` itself."""

    def register_function(function: Command) -> Command:
        _register_command(app, name, function, function.__doc__ or "", examples, options)
        return function

    return register_function


def api_command(app: typer.Typer, name: str, *examples: str, **options: Any) -> Callable[[Command], Command]:
    """A command that calls a master: the function gets a `Call` first, and is spared the common options."""

    def register_function(function: Command) -> Command:
        signature = inspect.signature(function, eval_str=True)

        def run_command(
            json: bool, url: object, token: object, data_dir: object, ca_file: object, **given: Any
        ) -> None:
            flags = {"--url": url, "--token": token, "--data-dir": data_dir, "--ca-file": ca_file}
            call = Call(Output(is_json=json), flags)
            try:
                function(call, **given)
            finally:
                call.close()

        own = list(signature.parameters.values())[1:]
        keyword = inspect.Parameter.KEYWORD_ONLY
        common = [inspect.Parameter(key, keyword, default=None, annotation=kind) for key, kind in _COMMON.items()]
        as_json = inspect.Parameter("json", keyword, default=False, annotation=JsonOption)
        parameters = [*(part.replace(kind=keyword) for part in own), as_json, *common]
        run_command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        run_command.__annotations__ = {part.name: part.annotation for part in parameters}
        run_command.__name__ = function.__name__
        _register_command(app, name, run_command, function.__doc__ or "", examples, options)
        return function

    return register_function


def _register_command(
    app: typer.Typer, name: str, function: Command, about: str, examples: tuple[str, ...], options: dict[str, Any]
) -> None:
    app.command(name, help=with_examples(about, *examples), **options)(function)


def with_examples(about: str, *examples: str) -> str:
    """A help text that ends in examples, each fit to be pasted as it stands."""
    lines = "\n".join(f"  {fold_example(example)}" for example in examples)
    text = f"{inspect.cleandoc(about)}\n\n\b\nExamples:\n{lines}\n"
    # A square bracket in an example is a bracket, not markup.
    return text.replace("[", "\\[")


def fold_example(example: str, width: int = EXAMPLE_CHARS) -> str:
    """Over several lines, joined as a shell joins them, where a terminal of 80 columns would break it anywhere."""
    lines, line = [], ""
    for part in re.split(r" (?=-)", example):
        if line and len(line) + 1 + len(part) > width:
            lines.append(f"{line} \\")
            line = f"    {part}"
        else:
            line = f"{line} {part}" if line else part
    return "\n  ".join([*lines, line])
