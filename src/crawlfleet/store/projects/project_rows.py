"""Rows of `project`: the statements that read and lock them, and the record of one."""

from __future__ import annotations

from crawlfleet.model.project import OnFull, Project, Quotas
from crawlfleet.store import row_codec
from crawlfleet.store.engine.transaction import Row

READ = ("name", "weight", "on_full", "quotas", "version", "fence", "changed_at")
SELECT = f"SELECT {', '.join(READ)} FROM project"
PROJECTS = f"{SELECT} ORDER BY name"
PROJECT = f"{SELECT} WHERE name = $1"
PROJECTS_AMONG = f"{SELECT} WHERE name AMONG($1) ORDER BY name"
SHARE_PROJECTS = f"{PROJECTS_AMONG} SHARE_ROWS(project)"
LOCK_PROJECTS = f"{PROJECTS_AMONG} LOCK_ROWS(project)"


def described(row: Row) -> Project:
    name, weight, on_full, quotas, version, fence, changed_at = row
    return Project(name, weight, Quotas(**row_codec.decode(quotas)), OnFull(on_full), version, fence, changed_at)
