"""The first schema: targets, results, states, incidents, rollups, and the webhook queue.

Revision ID: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make every table. Written out, not taken from tables.py: that file moves on, this one never changes."""
    _targets()
    _history()
    _rollups()
    _queue()
    _delivery()


def _targets() -> None:
    """What is checked, and how it is."""
    op.create_table(
        "meta",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_meta")),
    )
    op.create_table(
        "targets",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("config", sa.Text(), nullable=False),
        sa.Column("interval_ms", sa.Integer(), nullable=False),
        sa.Column("timeout_ms", sa.Integer(), nullable=False),
        sa.Column("expect", sa.Text(), nullable=False),
        sa.Column("group_name", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("first_result_at", sa.Integer()),
        sa.Column("removed_at", sa.Integer()),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_targets")),
        sa.UniqueConstraint("key", name=op.f("uq_targets_key")),
    )
    op.create_table(
        "target_states",
        sa.Column("target_id", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("since", sa.Integer()),
        sa.Column("consecutive", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("settled", sa.Text()),
        sa.Column("run_started_at", sa.Integer()),
        sa.Column("run_first_failure", sa.Text()),
        sa.Column("last_timestamp", sa.Integer()),
        sa.Column("last_success", sa.Boolean()),
        sa.Column("last_matched", sa.Boolean()),
        sa.Column("last_duration_ms", sa.Float()),
        sa.Column("last_status_detail", sa.Text()),
        sa.Column("last_failure", sa.Text()),
        sa.Column("last_warning", sa.Text()),
        sa.Column("certificate", sa.Text()),
        sa.Column("timings", sa.Text()),
        sa.Column("metrics", sa.Text()),
        sa.Column("next_due_at", sa.Integer()),
        sa.Column("in_maintenance", sa.Boolean(), nullable=False),
        sa.Column("matched_total", sa.Integer(), nullable=False),
        sa.Column("failed_total", sa.Integer(), nullable=False),
        sa.Column("missed_total", sa.Integer(), nullable=False),
        sa.Column("lost_total", sa.Integer(), nullable=False),
        sa.Column("incident_id", sa.Integer()),
        sa.Column("reminders_sent", sa.Integer(), nullable=False),
        sa.Column("last_reminder_at", sa.Integer()),
        sa.ForeignKeyConstraint(["target_id"], ["targets.id"], name=op.f("fk_target_states_target_id")),
        sa.PrimaryKeyConstraint("target_id", name=op.f("pk_target_states")),
    )
    op.create_index("ix_target_states_version", "target_states", ["version"])


def _history() -> None:
    """What was seen."""
    op.create_table(
        "check_results",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("target_id", sa.Integer(), nullable=False),
        sa.Column("timestamp", sa.Integer(), nullable=False),
        sa.Column("success", sa.Boolean(), nullable=False),
        sa.Column("matched", sa.Boolean(), nullable=False),
        sa.Column("duration_ms", sa.Float(), nullable=False),
        sa.Column("status_detail", sa.Text()),
        sa.Column("failure", sa.Text()),
        sa.Column("warning", sa.Text()),
        sa.Column("timings", sa.Text()),
        sa.Column("metrics", sa.Text()),
        sa.Column("maintenance", sa.Boolean()),
        sa.ForeignKeyConstraint(["target_id"], ["targets.id"], name=op.f("fk_check_results_target_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_check_results")),
    )
    op.create_index("ix_check_results_target_id_timestamp", "check_results", ["target_id", "timestamp"])
    op.create_table(
        "incidents",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("target_id", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.Integer(), nullable=False),
        sa.Column("resolved_at", sa.Integer()),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("first_failure", sa.Text(), nullable=False),
        sa.Column("last_failure", sa.Text(), nullable=False),
        sa.Column("notified", sa.Boolean(), nullable=False),
        sa.Column("resolution", sa.Text()),
        sa.ForeignKeyConstraint(["target_id"], ["targets.id"], name=op.f("fk_incidents_target_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_incidents")),
    )
    op.create_index("ix_incidents_started_at", "incidents", ["started_at"])
    op.create_index("ix_incidents_target_id_started_at", "incidents", ["target_id", "started_at"])


def _rollups() -> None:
    """What is kept for years."""
    op.create_table(
        "rollups",
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
        sa.PrimaryKeyConstraint("target_id", "step", "bucket", name=op.f("pk_rollups")),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_rollups_step_bucket", "rollups", ["step", "bucket"])


def _queue() -> None:
    """Events in their order."""
    op.create_table(
        "webhook_streams",
        sa.Column("stream", sa.Text(), nullable=False),
        sa.Column("last_seq", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("stream", name=op.f("pk_webhook_streams")),
    )
    op.create_table(
        "webhook_events",
        sa.Column("stream", sa.Text(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("endpoints", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("stream", "seq", name=op.f("pk_webhook_events")),
    )
    op.create_index("ix_webhook_events_created_at", "webhook_events", ["created_at"])
    op.create_table(
        "webhook_cursors",
        sa.Column("stream", sa.Text(), nullable=False),
        sa.Column("endpoint", sa.Text(), nullable=False),
        sa.Column("acked_seq", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_attempt_at", sa.Integer()),
        sa.Column("last_error", sa.Text()),
        sa.PrimaryKeyConstraint("stream", "endpoint", name=op.f("pk_webhook_cursors")),
    )


def _delivery() -> None:
    """What became of them."""
    op.create_table(
        "webhook_endpoints",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text()),
        sa.Column("open_until", sa.Integer()),
        sa.Column("consecutive_failures", sa.Integer(), nullable=False),
        sa.Column("last_success_at", sa.Integer()),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_webhook_endpoints")),
    )
    op.create_table(
        "webhook_dead_letters",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("stream", sa.Text(), nullable=False),
        sa.Column("endpoint", sa.Text(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("timestamp", sa.Integer(), nullable=False),
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook_dead_letters")),
        sa.UniqueConstraint("stream", "endpoint", "seq", name=op.f("uq_webhook_dead_letters_stream_endpoint_seq")),
    )
    op.create_index("ix_webhook_dead_letters_timestamp", "webhook_dead_letters", ["timestamp"])
