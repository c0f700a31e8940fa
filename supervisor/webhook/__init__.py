"""Tells: numbers events, keeps them in order, and delivers them to webhooks, at least once, until each has an outcome.

The loop (main thread) uses the facade, and nothing else of this package:

    from supervisor.webhook.hooks import Webhooks       # not imported here: `config` needs `payload` alone, quickly

    hooks = Webhooks(config.webhooks, writer, reader, loaded, data_dir=Path(...), runtime_dir=Path(...) or None)
                                                    # reader: store.connect.Reader; loaded: what writer.open() returned
    hooks.start()                                   # the delivery threads; returns at once
    hooks.reload(config.webhooks)                   # after a reload; removed endpoints get outcomes `orphaned`

  for each result, in this order, in the main thread:
    hooks.full(stream) -> bool                      # W19: True = take no number now, ask again next turn; the target's
                                                    #   next check waits until then (stats().waited_s measures it)
    hooks.accept(target, drafts) -> tuple[Event, ...]     # filter (W4), number (W1), bodies; hand them to the writer in
                                                    #   the Item of the result, at once
    hooks.wants(target, type, reminder=0) -> tuple[str, ...]     # the filter alone: endpoints of the target
    hooks.number(stream, type, timestamp_ms, data, endpoints, error=None) -> Event     # one number; for `accept`
    hooks.supervisor_event(type, data, error=None) -> tuple[Event, ...]   # stream `_supervisor`; data: version, counts
    hooks.reminder_interval_ms(target) -> int | None     # for state.Policy: the shortest of the target's endpoints

  called by the writer thread:
    hooks.committed(item)                           # its events are on disk

    hooks.stop(grace_s)                             # grace_s for what was never tried and for POSTs under way; outcomes
    hooks.close() -> int                            # after the writer has ended: logs and counts what is lost (W24)
    hooks.stats() -> hooks.WebhookStats                 # numbers for metrics; cheap

  for the control socket; `test` and `redeliver` block for up to an endpoint's timeout, so never in the main thread:
    hooks.redeliver(event_id, endpoint=None) -> tuple[Attempt, ...]
    hooks.test(target, endpoint=None) -> tuple[Attempt, ...]
    hooks.skip(event_id, endpoint=None) -> tuple[str, ...]       # endpoints at which it was given up
    (`commands.CommandError` is one sentence for the user. `events list|show` read the database: store.read.webhooks.)

Needed of the writer: `put_outcome(outcome, on_commit)` and `stats().degraded_since` (None = healthy). Nothing here
opens a write transaction. `supervisor.webhook.heartbeat.Heartbeat(url)` is the dead-man ping: `start()`, `beat()` from
each turn of the loop, `stop()`.
"""
