"""Keeps signals to our whole process group (Ctrl-C in a terminal, `kill -- -PID`) from the forkserver and its workers.

A stop is the supervisor's business: checks under way are given their time, and no worker is missed. So the forkserver
has a group of its own. It can leave ours only once it runs our code; until then it blocks them, from its start on.
"""

from __future__ import annotations

import os
import signal
from multiprocessing import resource_tracker

_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})


def hold() -> None:
    """Block them in this thread, for the forkserver that it may start. Ours are handled by the main thread anyway."""
    resource_tracker.ensure_running()  # when that starts a process, it unblocks two of them afterwards
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)


def leave_group() -> None:
    """In a forkserver that was started so: into a group of its own, and forget what has come so far. Its session stays
    ours, for that is how orphans of commands are told from our own processes."""
    if not signal.pthread_sigmask(signal.SIG_BLOCK, ()) >= _SIGNALS:
        return
    os.setpgid(0, 0)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # a group in the background may write to the terminal all the same
    for number in _SIGNALS:
        signal.signal(number, signal.signal(number, signal.SIG_IGN))  # while one is ignored, what waits is dropped
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
