"""The base class of all settings classes, and the function that declares a setting."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict


def default_data_dir() -> Path:
    return Path.home() / ".local" / "share" / "crawlfleet"


def setting(default: Any = ..., *, about: str, shown: str | None = None, secret: bool = False, **bounds: Any) -> Any:
    """Declare a field with a sentence for the reference; `shown` is the default as people read it, where it is
    computed."""
    extra: JsonDict = {"shown_default": shown, "secret": secret}
    if callable(default):
        return Field(default_factory=default, description=about, json_schema_extra=extra, repr=not secret, **bounds)
    return Field(default, description=about, json_schema_extra=extra, repr=not secret, **bounds)


class Settings(BaseModel):
    """Base class of settings: plain values, made by `load_settings` from file, environment and flags, or by hand in a
    test, never from hidden places."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    section: ClassVar[str]
    """Name of the table in a shared file that is for this process alone."""

    @classmethod
    def is_secret(cls, name: str) -> bool:
        extra = cls.model_fields[name].json_schema_extra
        return isinstance(extra, dict) and bool(extra["secret"])

    @classmethod
    def shown_default(cls, name: str) -> str | None:
        extra = cls.model_fields[name].json_schema_extra
        shown = extra["shown_default"] if isinstance(extra, dict) else None
        return shown if isinstance(shown, str) else None
