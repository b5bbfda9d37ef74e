"""Rows of `project`: the codec, and the statements that read and lock them."""

from __future__ import annotations

from dataclasses import asdict

from crawlfleet.model.project import Project, Quotas
from crawlfleet.store import row_codec, schema
from crawlfleet.store.row_codec import Format, RowCodec


def _encode_quotas(quotas: Quotas) -> bytes:
    return row_codec.encode_json({name: limit for name, limit in asdict(quotas).items() if limit is not None})


def _decode_quotas(body: bytes) -> Quotas:
    return Quotas(**row_codec.decode_json(body))


PROJECT_ROWS = RowCodec(schema.project, Project, formats={"quotas": Format(_encode_quotas, _decode_quotas)})
SELECT = f"SELECT {PROJECT_ROWS.select} FROM project"
PROJECTS = f"{SELECT} ORDER BY name"
PROJECT = f"{SELECT} WHERE name = $1"
PROJECTS_AMONG = f"{SELECT} WHERE name AMONG($1) ORDER BY name"
SHARE_PROJECTS = f"{PROJECTS_AMONG} SHARE_ROWS(project)"
LOCK_PROJECTS = f"{PROJECTS_AMONG} LOCK_ROWS(project)"
project_from_row = PROJECT_ROWS.from_row
