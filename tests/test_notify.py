"""sd_notify on a real datagram socket."""

from __future__ import annotations

import os
import socket

import pytest

from supervisor.notify import Notifier


@pytest.fixture
def systemd(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "notify"))
        sock.settimeout(2)
        yield sock


def notifier(systemd: socket.socket, **more: str) -> Notifier:
    return Notifier({"NOTIFY_SOCKET": systemd.getsockname(), **more})


def test_assignments_arrive_in_one_datagram(systemd):
    """send() sends its lines as systemd expects them."""
    notifier(systemd).send("READY=1", "STATUS=x")
    assert systemd.recv(1000) == b"READY=1\nSTATUS=x"


def test_a_status_is_sent_when_it_changes(systemd):
    """The same status twice is one datagram."""
    ours = notifier(systemd)
    for text in ("a", "a", "b"):
        ours.status(text)
    assert [systemd.recv(100), systemd.recv(100)] == [b"STATUS=a", b"STATUS=b"]
    systemd.setblocking(False)
    with pytest.raises(BlockingIOError):
        systemd.recv(100)


def test_the_watchdog_is_fed_a_third_of_its_time_apart(systemd):
    """30 s of WatchdogSec: fed at 0, not at 9, again at 10."""
    ours = notifier(systemd, WATCHDOG_USEC="30000000")
    for now in (0.0, 9.0, 10.0):
        ours.feed(now)
    assert [systemd.recv(100), systemd.recv(100)] == [b"WATCHDOG=1"] * 2
    systemd.setblocking(False)
    with pytest.raises(BlockingIOError):
        systemd.recv(100)


def test_a_watchdog_of_another_process_is_not_ours(systemd):
    """WATCHDOG_PID of somebody else: nothing is fed."""
    ours = notifier(systemd, WATCHDOG_USEC="30000000", WATCHDOG_PID=str(os.getpid() + 1))
    assert ours.watchdog_s is None


def test_without_a_socket_nothing_happens_and_a_dead_one_is_logged_once(tmp_path, caplog):
    """No NOTIFY_SOCKET is silence; one that nobody listens on is one warning, never an exception."""
    Notifier({}).send("READY=1")
    assert caplog.records == []
    dead = Notifier({"NOTIFY_SOCKET": str(tmp_path / "nobody")})
    dead.send("READY=1")
    dead.send("READY=1")
    assert [record.getMessage() for record in caplog.records] == ["notify.failed"]
