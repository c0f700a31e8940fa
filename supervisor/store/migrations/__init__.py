"""Alembic's scripts. `HEAD` is the revision this program reads and writes; a test holds it against the scripts."""

HEAD = "0002"
