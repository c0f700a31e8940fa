"""Tells: numbers events, keeps them in order, and delivers them to webhooks, at least once, until each has an outcome.

The loop (main thread) uses the facade `Webhooks`; nothing else of this package:

    hooks = Webhooks(config.webhooks, writer, reader, data_dir=Path, source=loaded.source, runtime_dir=Path | None)
    hooks.load()                                    # before the writer starts: cursors, breakers, numbers, leftovers
    hooks.start()                                   # the delivery threads; returns at once
    hooks.reload(config.webhooks)                   # after a reload; removed endpoints get outcomes `orphaned`

  for each result, in this order, in the main thread:
    hooks.full(stream) -> bool                      # W19: True = take no number now, ask again next turn; the target's
                                                    #   next check waits until its event is accepted (waited_s measures it)
    hooks.accept(target, drafts) -> tuple[Event, ...]     # filter (W4), number (W1), bodies; hand them to the writer in
                                                    #   the Item of the result, at once
    hooks.wants(target, type, reminder=0) -> tuple[str, ...]     # the filter alone: endpoints of the target
    hooks.number(stream, type, timestamp_ms, data, endpoints, error=None) -> Event     # one number; for `accept`
    hooks.supervisor_event(type, data) -> tuple[Event, ...]      # stream `_supervisor`: started, stopped, reloadFailed
    hooks.reminder_interval_ms(target) -> int | None     # for state.Policy: the shortest of the target's endpoints

  called by the writer thread:
    hooks.committed(item)                           # its events are on disk

    hooks.stop(grace_s)                             # no new POST; those under way get grace_s; then outcomes go to the writer
    hooks.close() -> int                            # after the writer has ended: logs and counts what is lost (W24)
    hooks.stats() -> WebhookStats                   # numbers for metrics; cheap
    hooks.health_json() -> str                      # endpoint health for the page (meta key "webhooks")

  for the control socket; `test` and `redeliver` block for up to an endpoint's timeout, so never in the main thread:
    hooks.redeliver(event_id, endpoint=None) -> tuple[Attempt, ...]
    hooks.test(target, endpoint=None) -> tuple[Attempt, ...]
    hooks.skip(event_id, endpoint=None) -> tuple[str, ...]       # endpoints at which it was given up
    (`CommandError` is one sentence for the user. `events list|show` read the database: store/outbox.py list_events,
    read_event.)

Needed of the writer: `put_outcome(outcome, on_commit)` and `stats().degraded_since` (None = healthy). Nothing here opens
a write transaction. `supervisor.webhook.heartbeat.Heartbeat(url)` is the dead-man ping: `start()`, `beat()` from each
turn of the loop, `stop()`.
"""
