"""Alembic's entry: runs the scripts on the connection that store/migrate.py lends, inside its transaction."""

from __future__ import annotations

from alembic import context

from supervisor.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
