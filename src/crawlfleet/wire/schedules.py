"""The bodies that create and change a schedule. The template in them is a task's body, and is read as one."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from crawlfleet.model import limits
from crawlfleet.model.schedule import DEFAULT_ZONE
from crawlfleet.wire.tasks import Label, Name

CatchUpWord = Literal["skip", "one", "all"]
OverlapWord = Literal["allow", "skip", "queue", "cancel_previous"]
Every = Annotated[int, msgspec.Meta(ge=1, le=limits.EVERY_S_MAX)]
Jitter = Annotated[int, msgspec.Meta(ge=0, le=limits.JITTER_S_MAX)]
Cron = Annotated[str, msgspec.Meta(min_length=1, max_length=limits.CRON_CHARS)]
Moment = Annotated[str, msgspec.Meta(max_length=limits.LABEL_CHARS)]


class ScheduleBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    task: msgspec.Raw
    name: Name | None = None
    at: Moment | None = None
    every_s: Every | None = None
    cron: Cron | None = None
    time_zone: Label = DEFAULT_ZONE
    starts_at: Moment | None = None
    ends_at: Moment | None = None
    jitter_s: Jitter = 0
    catch_up: CatchUpWord = "one"
    overlap: OverlapWord = "skip"
    is_paused: bool = False


class ScheduleChange(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What is left out stays as it is. One of `at`, `every_s` and `cron` takes the place of the other two."""

    task: msgspec.Raw | UnsetType = UNSET
    name: Name | UnsetType | None = UNSET
    at: Moment | UnsetType = UNSET
    every_s: Every | UnsetType = UNSET
    cron: Cron | UnsetType = UNSET
    time_zone: Label | UnsetType = UNSET
    starts_at: Moment | UnsetType | None = UNSET
    ends_at: Moment | UnsetType | None = UNSET
    jitter_s: Jitter | UnsetType = UNSET
    catch_up: CatchUpWord | UnsetType = UNSET
    overlap: OverlapWord | UnsetType = UNSET


KINDS = ("at", "every_s", "cron")


def apply_change(body: ScheduleBody, change: ScheduleChange) -> ScheduleBody:
    changes = {name: value for name in change.__struct_fields__ if (value := getattr(change, name)) is not UNSET}
    if any(kind in changes for kind in KINDS):
        changes = {**dict.fromkeys(KINDS), **changes}
        # A time zone that only the old expression had a use for is removed with it.
        if changes["cron"] is None:
            changes.setdefault("time_zone", DEFAULT_ZONE)
        if changes["at"] is not None:
            changes.setdefault("starts_at", None)
    return msgspec.structs.replace(body, **changes)


def change_fields(change: ScheduleChange) -> set[str]:
    return {name for name in change.__struct_fields__ if getattr(change, name) is not UNSET}
