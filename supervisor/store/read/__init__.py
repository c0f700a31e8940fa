"""Everything that is asked of the database by those who only read it: the web app and the command line.

Each function takes an open connection of `connect.py` and fetches all it needs at once: no cursor stays open, so the
write-ahead log can be reset. No query reads raw results across targets: the latest of every target stands in
`target_states`, history in `rollups` (tests/webui/test_store_states.py holds this with EXPLAIN QUERY PLAN).
"""

from supervisor.store.histogram import merge, quantiles
from supervisor.store.read.history import durations, list_incidents, results
from supervisor.store.read.rows import (
    DAY_MS,
    HOUR_MS,
    MASK_BITS,
    DayRow,
    DeadLetterRow,
    EndpointRow,
    EventRow,
    Fingerprint,
    IncidentRow,
    ResultRow,
    RollupRow,
    SumRow,
    TargetRow,
)
from supervisor.store.read.targets import (
    all_meta,
    all_targets,
    buckets,
    duration_parts,
    fingerprint,
    highest_version,
    one_target,
    sums,
    target_rollups,
)
from supervisor.store.read.webhooks import acknowledged, dead_letters, endpoints, events

__all__ = [
    "DAY_MS",
    "HOUR_MS",
    "MASK_BITS",
    "DayRow",
    "DeadLetterRow",
    "EndpointRow",
    "EventRow",
    "Fingerprint",
    "IncidentRow",
    "ResultRow",
    "RollupRow",
    "SumRow",
    "TargetRow",
    "acknowledged",
    "all_meta",
    "all_targets",
    "buckets",
    "dead_letters",
    "duration_parts",
    "durations",
    "endpoints",
    "events",
    "fingerprint",
    "highest_version",
    "list_incidents",
    "merge",
    "one_target",
    "quantiles",
    "results",
    "sums",
    "target_rollups",
]
