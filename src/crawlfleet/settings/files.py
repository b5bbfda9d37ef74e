"""Reads a configuration file: TOML, YAML or JSON, chosen by the suffix of its name."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

from crawlfleet.settings.provenance import BadSetting, Source

MAX_BYTES = 1 << 20


def read_file(path: Path) -> dict[str, Any]:
    """Return the table in the file. Raises BadSetting, which names the file and, where there is one, the line."""
    source = Source("file", str(path))
    parse = _PARSERS.get(path.suffix.lower())
    if parse is None:
        raise BadSetting("config", f"{path.name!r} ends in none of {', '.join(_PARSERS)}", source)
    try:
        if path.stat().st_size > MAX_BYTES:
            raise BadSetting("config", f"is larger than {MAX_BYTES} bytes", source)
        text = path.read_bytes().decode()
    except UnicodeDecodeError as exc:
        raise BadSetting("config", f"is not UTF-8 at byte {exc.start}", source) from exc
    except OSError as exc:
        hint = "crawlfleet init writes three examples" if isinstance(exc, FileNotFoundError) else None
        raise BadSetting("config", f"cannot be read: {exc.strerror}", source, hint) from exc
    try:
        table = parse(text)
    except (ValueError, RecursionError) as exc:
        raise BadSetting("config", f"cannot be read: {' '.join(str(exc).split())}", source) from exc
    if not isinstance(table, dict):
        raise BadSetting("config", "holds no table of settings", source)
    return table


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for key, value in pairs:
        if key in table:
            raise ValueError(f"the key {key!r} is there twice")
        table[key] = value
    return table


def _parse_json(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_unique_keys)


def _parse_yaml(text: str) -> Any:
    import yaml

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
            _unique_keys([(str(key.value), None) for key, _ in node.value])
            return super().construct_mapping(node, deep=deep)

    try:
        table = yaml.load(text, Loader=Loader)
    except yaml.YAMLError as exc:
        raise ValueError(str(exc)) from exc
    return {} if table is None else table


_PARSERS: dict[str, Callable[[str], Any]] = {
    ".toml": tomllib.loads,
    ".yaml": _parse_yaml,
    ".yml": _parse_yaml,
    ".json": _parse_json,
}
