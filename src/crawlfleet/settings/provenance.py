"""The source of a value, the record of a value that was ignored, and the error that names setting and source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from crawlfleet.errors import ConfigError
from crawlfleet.observe.secret_masking import mask_fields, mask_secrets


@dataclass(frozen=True, slots=True)
class Source:
    kind: str
    """Kind of the source: default, file, environment or flag."""
    where: str = ""
    """Exact place: the file and its key, the variable, or the flag."""

    def __str__(self) -> str:
        return self.where or self.kind


DEFAULT = Source("default")


@dataclass(frozen=True, slots=True)
class Given:
    """A value that was given in a file, a variable or a flag, under the name of the setting it is for."""

    setting: str
    value: Any
    source: Source


@dataclass(frozen=True, slots=True)
class Ignored:
    """A value that is known and changes nothing here: shown to the person who gave it, never dropped in silence."""

    key: str
    value: Any
    source: Source
    reason: str

    @property
    def display_value(self) -> Any:
        return mask_fields({self.key: self.value})[self.key]


class BadSetting(ConfigError):
    """Stops the start, with the setting, what is wrong with it, where its value came from, and what may help."""

    def __init__(self, setting: str, detail: str, source: Source, hint: str | None = None) -> None:
        # A wrong address is quoted, and may have a password in it.
        detail = mask_secrets(detail)
        super().__init__(f"{setting}: {detail} (from {source})")
        self.setting = setting
        self.detail = detail
        self.source = source
        self.hint = hint
