"""The bodies of a new group."""

from __future__ import annotations

from typing import Annotated

import msgspec

from crawlfleet.model.crawl import MEMBERS_MAX
from crawlfleet.wire.tasks import Label, Name, TaskBody

Positive = Annotated[int, msgspec.Meta(ge=1, le=(1 << 31) - 1)]


class ShardBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How a task is split. Give either `size` or `count`."""

    over: Label
    """The parameter that holds the list."""
    size: Positive | None = None
    """Values in each shard; the last may have fewer."""
    count: Positive | None = None
    """How many shards, of equal length but for one value."""


class CrawlBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One crawl over many nodes."""

    members: Annotated[int, msgspec.Meta(ge=1, le=MEMBERS_MAX)]
    """Tasks that take part in it; each runs where there is a slot."""


class GroupFrame(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A group as it is read first, with raw tasks, so that an error in one of its tasks is reported for that task."""

    name: Name | None = None
    project_id: Name | None = None
    is_closed: bool = False
    tasks: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    task: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    shard: ShardBody | None = None
    crawl: CrawlBody | None = None


class GroupBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A group with its first `tasks`, if any; or a `task` whose list is split into shards, or a `task` that
    is one crawl over many nodes. All of it or nothing."""

    name: Name | None = None
    project_id: Name | None = None
    """Of the group, and of its tasks where they name none."""
    is_closed: bool = False
    """No other tasks may join it later. Always so of shards."""
    tasks: list[TaskBody] = []
    task: TaskBody | None = None
    shard: ShardBody | None = None
    crawl: CrawlBody | None = None
    """Of a task of the type web_crawl: its limits are those of the whole."""


class ShardSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept of how a task was split."""

    over: str
    shards: int
    values: int
    size: int | None = None
    count: int | None = None
