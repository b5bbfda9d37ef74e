"""Writes what the client need not have written by hand: its models from the API's OpenAPI document, and its blocking
face from the async one. `--check` only says whether the files are as they should be.

    python scripts/generate_client.py [--check]
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

ROOT = Path(__file__).resolve().parent.parent
CLIENT = ROOT / "src" / "crawlfleet" / "client"
GENERATED = CLIENT / "_generated"
NOUNS = (
    "tasks",
    "results",
    "exports",
    "groups",
    "flows",
    "schedules",
    "nodes",
    "clusters",
    "dead_letters",
    "queues",
    "maintenance",
    "masters",
    "projects",
    "tokens",
    "hosts",
    "events",
    "products",
    "cookie_jars",
    "proxies",
    "alerts",
    "log_level",
)
"""Files of the async client whose methods the blocking one has too."""

_BY_HAND = {"BatchAnswer"}
"""A list of two kinds of objects without a tag between them: the client tells them apart itself."""

_MODELS_HEAD = '''\
"""The answers of the API. Written by scripts/generate_client.py from its OpenAPI document; do not edit."""

# ruff: noqa
# mypy: disable-error-code="type-arg"
'''
_BLOCKING_HEAD = '''\
"""The blocking face of the client. Written by scripts/generate_client.py from the async one: do not edit."""

# ruff: noqa
from __future__ import annotations

{imports}


class Client(Background):
    """Call an installation from code that knows nothing of asyncio: the methods of `AsyncClient`, each of which
    returns when it is done. One thread with one event loop serves all of them."""
'''


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit code 1 when a file is out of date")
    is_check = parser.parse_args().check
    stale = []
    for path, code in {GENERATED / "models.py": models_text(), GENERATED / "blocking.py": blocking_text()}.items():
        text = format_code(code, path)
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            stale.append(path)
            if not is_check:
                path.write_text(text, encoding="utf-8")
                print(f"wrote {path.relative_to(ROOT)}")
    if stale and is_check:
        print("out of date: " + ", ".join(str(path.relative_to(ROOT)) for path in stale), file=sys.stderr)
        return 1
    return 0


def format_code(text: str, path: Path) -> str:
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(path), "-"]
    return subprocess.run(command, input=text, capture_output=True, check=True, text=True, cwd=ROOT).stdout


def openapi_document() -> dict[str, Any]:
    from crawlfleet.api.app import create_app
    from crawlfleet.observe.metrics import ProcessMetrics
    from crawlfleet.ports.clock import SystemClock

    # The document says what the routes are, not what they do: nothing behind them is touched.
    services: Any = SimpleNamespace(clock=SystemClock(), metrics=ProcessMetrics())
    return create_app(services).openapi()


def models_text() -> str:
    """Structs of the schemas that answers refer to; what goes in is written by callers as plain mappings."""
    document = openapi_document()
    schemas = document["components"]["schemas"]
    wanted = _reachable_schemas(schemas, _answer_schemas(document)) - _BY_HAND
    slim = {
        "openapi": "3.1.0",
        "info": {"title": "crawlfleet", "version": "0"},
        "paths": {},
        "components": {"schemas": {name: _without_bounds(schemas[name]) for name in sorted(wanted)}},
    }
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "openapi.json"), Path(folder, "models.py")
        source.write_text(json.dumps(slim), encoding="utf-8")
        subprocess.run(
            [
                sys.executable,
                "-m",
                "datamodel_code_generator",
                "--input",
                source,
                "--input-file-type",
                "openapi",
                "--output",
                target,
                "--output-model-type",
                "msgspec.Struct",
                "--target-python-version",
                "3.11",
                "--use-standard-collections",
                "--use-union-operator",
                "--use-annotated",
                "--disable-timestamp",
                "--enum-field-as-literal",
                "all",
                "--use-schema-description",
                "--use-field-description",
                "--output-datetime-class",
                "datetime",
                "--use-title-as-name",
                "--disable-future-imports",
                "--custom-file-header",
                _MODELS_HEAD,
                "--formatters",
                "builtin",
            ],
            check=True,
            stdin=subprocess.DEVNULL,
            cwd=folder,
        )
        return _simplify_models(target.read_text(encoding="utf-8"))


def _simplify_models(text: str) -> str:
    """A field that an answer may leave out is None then: one way of not being there is enough."""
    text = re.sub(r": (.+?) \| None \| UnsetType = UNSET", r": \1 | None = None", text)
    text = re.sub(r": (.+?) \| UnsetType = UNSET", r": \1 | None = None", text)
    text = text.replace(" | UnsetType = ", " = ").replace("(Struct):", "(Struct, frozen=True, kw_only=True):")
    return re.sub(r"from msgspec import .*", _without_unset, text, count=1)


def _without_unset(line: re.Match[str]) -> str:
    left = [name for name in line[0].removeprefix("from msgspec import ").split(", ") if "nset" not in name.lower()]
    return f"from msgspec import {', '.join(left)}"


def _answer_schemas(document: dict[str, Any]) -> set[str]:
    """Return the names of the schemas in good answers, without the dialects: those are for other clients."""
    names: set[str] = set()
    for path, item in document["paths"].items():
        if path.startswith("/api/") and not path.startswith("/api/v1/"):
            continue
        for operation in item.values():
            for status, answer in operation.get("responses", {}).items():
                if status.startswith("2"):
                    names |= _referenced_schemas(answer)
    return names


def _reachable_schemas(schemas: dict[str, Any], names: set[str]) -> set[str]:
    reached: set[str] = set()
    while names:
        reached |= names
        names = set().union(*(_referenced_schemas(schemas[name]) for name in names)) - reached
    return reached


def _referenced_schemas(node: object) -> set[str]:
    if isinstance(node, dict):
        own = {str(node["$ref"]).rpartition("/")[2]} if "/schemas/" in str(node.get("$ref", "")) else set()
        return own.union(*(_referenced_schemas(value) for value in node.values()))
    if isinstance(node, list):
        return set[str]().union(*(_referenced_schemas(value) for value in node))
    return set()


_BOUNDS = frozenset(
    {
        "enum",
        "const",
        "minLength",
        "maxLength",
        "minimum",
        "maximum",
        "minItems",
        "maxItems",
        "maxProperties",
        "pattern",
    }
)


def _without_bounds(schema: Any) -> Any:
    """Bounds and choices bind callers that send; a client takes the answer of a newer master as it is."""
    if isinstance(schema, list):
        return [_without_bounds(value) for value in schema]
    if not isinstance(schema, dict):
        return schema
    # An empty text is no instant, though it may stand for one in the schema's defaults.
    dropped = _BOUNDS | {"default"} if schema.get("default") == "" else _BOUNDS
    fields = {key: value for key, value in schema.items() if key not in dropped}
    if "enum" in schema:
        fields["type"] = "string"
    properties = {name: _without_bounds(inner) for name, inner in fields.pop("properties", {}).items()}
    rest = {key: _without_bounds(value) for key, value in fields.items()}
    return {**rest, "properties": properties} if properties else rest


def blocking_text() -> str:
    imports: dict[str, set[str]] = {"crawlfleet.client.transport.loop_thread": {"Background"}}
    methods: list[str] = []
    for noun in NOUNS:
        tree = ast.parse((CLIENT / "nouns" / f"{noun}.py").read_text(encoding="utf-8"))
        names: set[str] = set()
        for method in _public_methods(tree):
            methods.append(_blocking_method(method))
            head = (method.args, cast("ast.expr", method.returns), *method.decorator_list)
            names |= {node.id for top in head for node in ast.walk(top) if isinstance(node, ast.Name)}
        _add_imports(tree, names, imports)
    text = "\n\n".join(methods)
    if "Iterator[" in text:
        imports.setdefault("collections.abc", set()).add("Iterator")
    lines = [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(imports.items()) if names]
    return _BLOCKING_HEAD.format(imports="\n".join(lines)) + "\n" + text + "\n"


def _public_methods(tree: ast.Module) -> list[ast.AsyncFunctionDef | ast.FunctionDef]:
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name.endswith("Calls")]
    return [
        method
        for cls in classes
        for method in cls.body
        if isinstance(method, ast.AsyncFunctionDef | ast.FunctionDef) and not method.name.startswith("_")
    ]


def _blocking_method(method: ast.AsyncFunctionDef | ast.FunctionDef) -> str:
    returned = ast.unparse(cast("ast.expr", method.returns))
    is_stream = returned.startswith("AsyncIterator[")
    names = [argument.arg for argument in (*method.args.posonlyargs, *method.args.args)][1:]
    passed = [*names, *(f"{argument.arg}={argument.arg}" for argument in method.args.kwonlyargs)]
    if method.args.kwarg:
        passed.append(f"**{method.args.kwarg.arg}")
    call = f"self._client.{method.name}({', '.join(passed)})"
    decorators = "".join(f"    @{ast.unparse(decorator)}\n" for decorator in method.decorator_list)
    arguments = ast.unparse(method.args)
    head = f"    def {method.name}({arguments}) -> {returned.replace('AsyncIterator', 'Iterator')}:"
    if decorators:
        return f"{decorators}{head} ..."
    about = ast.get_docstring(method, clean=False)
    doc = f'\n        """{about}"""' if about else ""
    return f"{head}{doc}\n        return self.{'_iterate_stream' if is_stream else '_run_call'}({call})"


def _add_imports(tree: ast.Module, names: set[str], imports: dict[str, set[str]]) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module not in (None, "__future__"):
            used = {alias.name for alias in node.names} & names - {"AsyncIterator"}
            imports.setdefault(str(node.module), set()).update(used)


if __name__ == "__main__":
    raise SystemExit(main())
