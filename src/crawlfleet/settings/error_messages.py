"""Translates a validation error into a sentence that names the setting and where its value came from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from crawlfleet.settings.base import Settings
from crawlfleet.settings.provenance import DEFAULT, BadSetting, Given
from crawlfleet.wire.field_messages import did_you_mean, model_message

_HINTS = {
    "masters": "name a master by --master http://HOST:PORT, CRAWLFLEET_MASTERS, or masters in a file",
    "enrol_token": "crawlfleet token create --role enrol makes one",
    "token": "crawlfleet token create --role operator makes one",
    "nodes": "crawlfleet master starts a master without agents",
    "port": "a port is a number from 0 to 65535",
}
_CHOOSE_ONE = "the documentation lists the alternatives: choose one"
_SHOWN_CHARS = 100


def bad_setting(cls: type[Settings], exc: ValidationError, given: Mapping[str, Given]) -> BadSetting:
    """Make one error of all validation errors: the first is the headline, the others follow line by line."""
    # A default that is computed from another setting is not a mistake of its own.
    errors = [error for error in exc.errors() if error["type"] != "default_factory_not_called"]
    mistakes = [_describe_error(cls, error, given) for error in errors]
    first = mistakes[0]
    if len(mistakes) > 1:
        others = "".join(f"\n  also {other}" for other in mistakes[1:])
        first.args = (f"{first}{others}",)
    return first


def _describe_error(cls: type[Settings], error: Any, given: Mapping[str, Given]) -> BadSetting:
    detail = model_message(error)
    setting = str(error["loc"][0]) if error["loc"] else _first_named(cls, detail)
    entry = given.get(setting)
    if error["type"] == "missing" or (setting == "masters" and error["type"] == "too_short"):
        return BadSetting(setting, "is needed and was not given", DEFAULT, _HINTS.get(setting))
    if error["type"] == "extra_forbidden":
        near = did_you_mean(setting, cls.model_fields)
        detail = "there is no such setting for this command" + (f"; did you mean {near}?" if near else "")
    if not error["loc"]:
        detail = detail.removeprefix(f"{setting}: ")
    elif error["type"] != "value_error" and entry is not None and not _is_secret(cls, setting):
        detail = f"{entry.value!r}"[:_SHOWN_CHARS] + f": {detail[:1].lower()}{detail[1:]}"
    hint = _CHOOSE_ONE if entry is not None and "|" in str(entry.value) else _HINTS.get(setting)
    return BadSetting(setting, detail, entry.source if entry else DEFAULT, hint)


def _is_secret(cls: type[Settings], setting: str) -> bool:
    return setting in cls.model_fields and cls.is_secret(setting)


def _first_named(cls: type[Settings], detail: str) -> str:
    """Return the setting that a check over several settings names first: its sentence starts with that name."""
    word = re.match(r"\w+", detail)
    return word.group() if word and word.group() in cls.model_fields else "settings"
