"""Run by Alembic: migrates the connection that `migrate.py` hands over."""

from alembic import context

connection = context.config.attributes["connection"]
context.configure(connection=connection, version_table="rota_schema_version", transactional_ddl=True)
context.run_migrations()
