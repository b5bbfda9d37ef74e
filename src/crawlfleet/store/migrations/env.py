"""Alembic's entry: the connection comes from `store.migrate`."""

from __future__ import annotations

from alembic import context

from crawlfleet.store import tables

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=tables.metadata,
    transactional_ddl=True,
    render_as_batch=False,
)
with context.begin_transaction():
    context.run_migrations()
