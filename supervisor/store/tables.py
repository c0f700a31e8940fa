"""The tables (design section 9, webhooks.md). The Alembic revision is the only schema version. Times are UTC ms."""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# key is source (uuid), heartbeat_at, reload_error, page, version, maintenance, webhooks (both JSON), batch ...
meta = Table("meta", metadata, Column("key", Text, primary_key=True), Column("value", Text, nullable=False))

targets = Table(
    "targets",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("key", Text, nullable=False, unique=True),
    Column("name", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("target", Text, nullable=False),  # the masked summary people search for
    Column("config", Text, nullable=False),  # masked JSON
    Column("interval_ms", Integer, nullable=False),
    Column("timeout_ms", Integer, nullable=False),
    Column("expect", Text, nullable=False),  # masked JSON
    Column("group_name", Text, nullable=False),
    Column("position", Integer, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("labels", Text, nullable=False),  # JSON object
    Column("first_result_at", Integer),
    Column("removed_at", Integer),
)

check_results = Table(
    "check_results",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("target_id", Integer, ForeignKey("targets.id"), nullable=False),
    Column("timestamp", Integer, nullable=False),
    Column("success", Boolean, nullable=False),
    Column("matched", Boolean, nullable=False),
    Column("duration_ms", Float, nullable=False),
    Column("status_detail", Text),
    Column("failure", Text),  # JSON of a CheckFailure
    Column("warning", Text),
    Column("timings", Text),  # JSON, failed and degraded results only
    Column("metrics", Text),
    Column("maintenance", Boolean),
    Index("ix_check_results_target_id_timestamp", "target_id", "timestamp"),
)

target_states = Table(
    "target_states",
    metadata,
    Column("target_id", Integer, ForeignKey("targets.id"), primary_key=True),
    Column("state", Text, nullable=False),
    Column("since", Integer),
    Column("consecutive", Integer, nullable=False),
    Column("version", Integer, nullable=False),  # global counter, bumped on each change a reader can see in the state
    Column("settled", Text),
    Column("run_started_at", Integer),
    Column("run_first_failure", Text),
    Column("last_timestamp", Integer),
    Column("last_success", Boolean),
    Column("last_matched", Boolean),
    Column("last_duration_ms", Float),
    Column("last_status_detail", Text),
    Column("last_failure", Text),  # of the last result; NULL when it matched
    Column("last_warning", Text),
    Column("certificate", Text),
    Column("timings", Text),
    Column("metrics", Text),
    Column("next_due_at", Integer),
    Column("in_maintenance", Boolean, nullable=False),
    Column("matched_total", Integer, nullable=False),
    Column("failed_total", Integer, nullable=False),
    Column("missed_total", Integer, nullable=False),
    Column("lost_total", Integer, nullable=False),
    Column("incident_id", Integer),
    Column("reminders_sent", Integer, nullable=False),
    Column("last_reminder_at", Integer),
    Index("ix_target_states_version", "version"),
)

incidents = Table(
    "incidents",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("target_id", Integer, ForeignKey("targets.id"), nullable=False),
    Column("started_at", Integer, nullable=False),
    Column("resolved_at", Integer),
    Column("failures", Integer, nullable=False),
    Column("first_failure", Text, nullable=False),
    Column("last_failure", Text, nullable=False),
    Column("notified", Boolean, nullable=False),
    Column("resolution", Text),
    Index("ix_incidents_target_id_started_at", "target_id", "started_at"),
    Index("ix_incidents_started_at", "started_at"),
)

# step is "hour" (3600000 ms) or "day" (86400000 ms), kept as its length in ms; bucket is its UTC start. In the order of
# time: what all targets change now lies side by side (with 10 million results half of a write was pages of rollups)
rollups = Table(
    "rollups",
    metadata,
    Column("target_id", Integer, ForeignKey("targets.id"), nullable=False),
    Column("step", Integer, nullable=False),
    Column("bucket", Integer, nullable=False),
    Column("matched", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("degraded", Integer, nullable=False),
    Column("missed", Integer, nullable=False),
    Column("lost", Integer, nullable=False),
    Column("maintenance", Integer, nullable=False),
    Column("covered_ms", Integer, nullable=False),
    Column("duration_sum", Float, nullable=False),
    Column("duration_min", Float),
    Column("duration_max", Float),
    Column("histogram", LargeBinary, nullable=False),  # store/histogram.py
    Column("timings_sum", Text),  # JSON: sums and counts of each step
    PrimaryKeyConstraint("step", "bucket", "target_id"),
    Index("ix_rollups_target_id_step_bucket", "target_id", "step", "bucket"),
    sqlite_with_rowid=False,
)

webhook_streams = Table(
    "webhook_streams",
    metadata,
    Column("stream", Text, primary_key=True),
    Column("last_seq", Integer, nullable=False),
)

webhook_events = Table(
    "webhook_events",
    metadata,
    Column("stream", Text, primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("type", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("endpoints", Text, nullable=False),  # JSON array of names
    Column("created_at", Integer, nullable=False),
    Index("ix_webhook_events_created_at", "created_at"),
)

webhook_cursors = Table(
    "webhook_cursors",
    metadata,
    Column("stream", Text, primary_key=True),
    Column("endpoint", Text, primary_key=True),
    Column("acked_seq", Integer, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_attempt_at", Integer),
    Column("last_error", Text),
)

webhook_endpoints = Table(
    "webhook_endpoints",
    metadata,
    Column("name", Text, primary_key=True),
    Column("state", Text, nullable=False),  # closed | open | disabled
    Column("reason", Text),
    Column("open_until", Integer),
    Column("consecutive_failures", Integer, nullable=False),
    Column("last_success_at", Integer),
)

webhook_dead_letters = Table(
    "webhook_dead_letters",
    metadata,
    Column("id", Text, primary_key=True),
    Column("stream", Text, nullable=False),
    Column("endpoint", Text, nullable=False),
    Column("seq", Integer, nullable=False),
    Column("type", Text, nullable=False),
    Column("timestamp", Integer, nullable=False),
    Column("code", Text, nullable=False),
    Column("error", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("url", Text, nullable=False),  # the origin only: webhook paths are secrets
    UniqueConstraint("stream", "endpoint", "seq"),
    Index("ix_webhook_dead_letters_timestamp", "timestamp"),
)
