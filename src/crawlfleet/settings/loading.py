"""Loads settings from defaults, then a file, then the environment, then flags; each value has its source."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from crawlfleet.settings import legacy_names
from crawlfleet.settings.base import Settings
from crawlfleet.settings.client import ClientSettings
from crawlfleet.settings.error_messages import bad_setting
from crawlfleet.settings.files import read_file
from crawlfleet.settings.master import MasterSettings, StandaloneSettings
from crawlfleet.settings.provenance import DEFAULT, BadSetting, Given, Ignored, Source
from crawlfleet.settings.values import PLACEHOLDER_KEYS
from crawlfleet.settings.worker import WorkerSettings

S = TypeVar("S", bound=Settings)

PREFIX = "CRAWLFLEET_"
CLASSES: tuple[type[Settings], ...] = (MasterSettings, StandaloneSettings, WorkerSettings, ClientSettings)
# The command itself reads these.
_COMMAND_VARIABLES = frozenset({"config", "mode"})
# Kubernetes describes a service named crawlfleet to every container by variables of these forms.
_SERVICE_VARIABLE = re.compile(r"service_(host|port\w*)|port_\d+_\w+")
_FLAGS = {
    "master": "masters",
    "master_url": "masters",
    "device_name": "name",
    "capability": "capabilities",
    "resource": "resources",
    "allow_host": "allow_hosts",
    "allowed_network": "allowed_networks",
}
_STAND_INS = {"masters": "http://127.0.0.1:8000"}
"""Substitutes for settings without a default, so that the others can be checked and shown without them."""
_PASSWORD = re.compile(r"(://[^:/@]*):[^@]*@")


@dataclass(frozen=True, slots=True)
class Loaded(Generic[S]):
    settings: S
    sources: Mapping[str, Source]
    ignored: tuple[Ignored, ...] = ()
    missing: frozenset[str] = frozenset()
    """Names of the settings that are needed to start and were not given."""

    def setting_rows(self) -> Iterator[tuple[str, Any, Source]]:
        """Yield each setting with its value, fit to be shown, and its source."""
        for name in type(self.settings).model_fields:
            yield name, self._display_value(name), self.sources[name]

    def _display_value(self, name: str) -> Any:
        if name in self.missing:
            return None
        value = getattr(self.settings, name)
        if value is not None and self.settings.is_secret(name):
            return "********"
        if isinstance(value, str):
            return _PASSWORD.sub(r"\1:***@", value)
        return str(value) if isinstance(value, Path) else value


def load_settings(
    cls: type[S],
    file: Path | None = None,
    env: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
    *,
    is_for_show: bool = False,
) -> Loaded[S]:
    """Load the settings of a process. Raises BadSetting. Flags are given by `--flag` or by the setting's name; None
    stands for one that was not given. With `is_for_show` a setting that is needed and was not given is no error:
    nothing is started."""
    ignored: list[Ignored] = []
    given: dict[str, Given] = {}
    if file is not None:
        given.update(_from_file(cls, file, ignored))
    given.update(_from_environment(cls, env or {}))
    given.update(_from_flags(flags or {}))
    missing = [name for name in _STAND_INS if name in cls.model_fields and name not in given] if is_for_show else []
    values = {name: entry.value for name, entry in given.items()} | {name: _STAND_INS[name] for name in missing}
    try:
        settings = cls(**values)
    except ValidationError as exc:
        raise bad_setting(cls, exc, given) from exc
    origin = {name: given[name].source if name in given else DEFAULT for name in cls.model_fields}
    origin |= dict.fromkeys(missing, Source("needed to start"))
    return Loaded(settings, origin, tuple(ignored), frozenset(missing))


def flag_setting(flag: str) -> str:
    """Return the setting that a flag sets."""
    name = flag.removeprefix("--").replace("-", "_")
    return _FLAGS.get(name, name)


def load_mode(file: Path | None, env: Mapping[str, str], flag: str | None) -> str | None:
    """Return the process that a configuration is for, when the command does not name it."""
    value: object = flag or env.get(f"{PREFIX}MODE") or None
    source = Source("flag", "--mode") if flag else Source("environment", f"{PREFIX}MODE")
    if value is None and file is not None:
        value, source = read_file(file).get("mode"), Source("file", f"{file}: mode")
    if value is not None:
        _check_mode(value, source)
    return str(value) if value is not None else None


def _from_file(cls: type[Settings], path: Path, ignored: list[Ignored]) -> dict[str, Given]:
    table = read_file(path)
    shared: dict[str, Given] = {}
    own: dict[str, Given] = {}
    for key, value in table.items():
        if key in {other.section for other in CLASSES} and isinstance(value, dict):
            for inner, inner_value in _flatten_table(value, cls):
                source = Source("file", f"{path}: {key}.{inner}")
                into = own if key == cls.section else None
                _read_key(cls if into is not None else _section_class(key), inner, inner_value, source, into, ignored)
        else:
            for inner, inner_value in _flatten_table({key: value}, cls):
                _read_key(cls, inner, inner_value, Source("file", f"{path}: {inner}"), shared, ignored)
    return shared | own


def _section_class(section: str) -> type[Settings]:
    return next(cls for cls in CLASSES if cls.section == section)


def _flatten_table(table: Mapping[str, Any], cls: type[Settings], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the leaves of the source documents' sections by dotted path, and every other value as it is."""
    for key, value in table.items():
        path = f"{above}{key}"
        if path in legacy_names.SECTIONS and isinstance(value, dict):
            yield from _flatten_table(value, cls, f"{path}.")
        else:
            yield path, value


def _read_key(
    cls: type[Settings], key: str, value: Any, source: Source, into: dict[str, Given] | None, ignored: list[Ignored]
) -> None:
    """Handle one key of a file: a setting of ours, a name of the source documents, or a mistake. Without `into` it is
    only checked, because it stands in the section of another process."""
    if isinstance(value, str) and value.strip() in PLACEHOLDER_KEYS:
        hint = "crawlfleet token create --role enrol makes a token for workers"
        raise BadSetting(key, "this is the placeholder of the documentation, not a key", source, hint)
    not_given = legacy_names.DESCRIPTIONS.get(value) if isinstance(value, str) else None
    if key == "mode" and not_given is None:
        _check_mode(value, source)
        if value == cls.section:
            return
    setting = key if key in cls.model_fields else legacy_names.translate_name(key, cls.section)
    if setting is None:
        reason = _reason_to_ignore(key, source)
        if into is not None:
            ignored.append(Ignored(key, value, source, not_given or reason))
        return
    if into is None:
        return
    if not_given is not None:
        ignored.append(Ignored(key, value, source, not_given))
        return
    if setting in into:
        raise BadSetting(setting, f"is given twice, also by {into[setting].source}", source)
    into[setting] = Given(setting, value, source)


def _reason_to_ignore(key: str, source: Source) -> str:
    """Return why a known key has no meaning here; raises BadSetting for a key that no process knows."""
    if key in legacy_names.NO_MEANING:
        return legacy_names.NO_MEANING[key]
    if key in legacy_names.NOT_HERE:
        return legacy_names.NOT_HERE[key]
    owners = [
        cls.section for cls in CLASSES if key in cls.model_fields or legacy_names.translate_name(key, cls.section)
    ]
    if owners:
        return f"a setting of: {', '.join(owners)}"
    known_names = {name for cls in CLASSES for name in cls.model_fields} | {
        *legacy_names.MEANING,
        *legacy_names.NO_MEANING,
    }
    raise BadSetting(key, "there is no such setting", source, _suggest_name(key, known_names))


def _suggest_name(key: str, known_names: set[str]) -> str:
    if close := difflib.get_close_matches(key, sorted(known_names), n=1):
        return f"did you mean {close[0]}?"
    return "crawlfleet config show lists every setting"


def _check_mode(value: object, source: Source) -> None:
    if value not in legacy_names.MODES:
        hint = "the documentation lists the alternatives: choose one" if "|" in str(value) else None
        raise BadSetting("mode", f"{value!r} is none of {', '.join(legacy_names.MODES)}", source, hint)


def _from_environment(cls: type[Settings], env: Mapping[str, str]) -> dict[str, Given]:
    known_names = {name for other in CLASSES for name in other.model_fields} | _COMMAND_VARIABLES
    given: dict[str, Given] = {}
    for variable, text in env.items():
        name = variable.removeprefix(PREFIX).lower()
        if not variable.startswith(PREFIX) or text == "" or _is_of_a_service(name, text):
            continue
        source = Source("environment", variable)
        if name not in known_names or variable != variable.upper():
            hint = _suggest_name(variable, {f"{PREFIX}{other.upper()}" for other in known_names})
            raise BadSetting(name, "there is no such setting", source, hint)
        if name in cls.model_fields:
            given[name] = Given(name, text, source)
    return given


def _is_of_a_service(name: str, text: str) -> bool:
    return _SERVICE_VARIABLE.fullmatch(name) is not None or (name == "port" and text.startswith("tcp://"))


def _from_flags(flags: Mapping[str, object]) -> dict[str, Given]:
    given: dict[str, Given] = {}
    for flag, value in flags.items():
        if value is None or value in ((), []):
            continue
        setting = flag_setting(flag)
        shown = flag if flag.startswith("--") else f"--{flag.replace('_', '-')}"
        given[setting] = Given(setting, value, Source("flag", shown))
    return given
