"""Run by Alembic: the connection comes in from `groundwatch_deploy.migrations`."""

from __future__ import annotations

from alembic import context

from groundwatch_deploy.migrations import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,  # SQLite cannot alter a column in place
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
