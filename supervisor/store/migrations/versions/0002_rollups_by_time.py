"""Rollups lie in the order of time, so that what all targets change now lies side by side.

Before, each result changed two pages of its target's own; with thousands of targets and months of history most of what
was written was that.

Revision ID: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """SQLite can't change a primary key: the rows move to a new table, in their new order."""
    op.create_table(
        "rollups_by_time",
        sa.Column("target_id", sa.Integer(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("bucket", sa.Integer(), nullable=False),
        sa.Column("matched", sa.Integer(), nullable=False),
        sa.Column("failed", sa.Integer(), nullable=False),
        sa.Column("degraded", sa.Integer(), nullable=False),
        sa.Column("missed", sa.Integer(), nullable=False),
        sa.Column("lost", sa.Integer(), nullable=False),
        sa.Column("maintenance", sa.Integer(), nullable=False),
        sa.Column("covered_ms", sa.Integer(), nullable=False),
        sa.Column("duration_sum", sa.Float(), nullable=False),
        sa.Column("duration_min", sa.Float()),
        sa.Column("duration_max", sa.Float()),
        sa.Column("histogram", sa.LargeBinary(), nullable=False),
        sa.Column("timings_sum", sa.Text()),
        sa.ForeignKeyConstraint(["target_id"], ["targets.id"], name=op.f("fk_rollups_target_id")),
        sa.PrimaryKeyConstraint("step", "bucket", "target_id", name=op.f("pk_rollups")),
        sqlite_with_rowid=False,
    )
    op.execute("INSERT INTO rollups_by_time SELECT * FROM rollups ORDER BY step, bucket, target_id")
    op.drop_table("rollups")
    op.rename_table("rollups_by_time", "rollups")
    op.create_index("ix_rollups_target_id_step_bucket", "rollups", ["target_id", "step", "bucket"])
