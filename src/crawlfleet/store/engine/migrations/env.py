"""The entry point of Alembic; the connection comes from `store.engine.migrate`."""

from __future__ import annotations

from alembic import context

from crawlfleet.store import schema

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=schema.metadata,
    transactional_ddl=True,
    render_as_batch=False,
)
with context.begin_transaction():
    context.run_migrations()
