"""`checkvisor events` and `backup`: read from a database, asked of a supervisor over its control socket."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from supervisor.store.tables import webhook_cursors, webhook_streams
from tests.cli_support import call, checkvisor, command_target, running, write
from tests.servers import OK, length, script_server
from tests.webui.fill import Fill, now

# `${SECRET}` is never set: what only reads must not need the service's secrets
CONFIG = (
    "runtime: {dataDir: state}\n"
    'webhooks: [{name: ops, url: "${SECRET}", default: true}]\n'
    "targets:\n" + command_target("shop", "true")
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A configuration and an empty data directory."""
    write(tmp_path, CONFIG)
    (tmp_path / "state").mkdir()
    return tmp_path


def _queue(fill: Fill) -> None:
    """shop:1 delivered to both, shop:2 dead at ops, shop:3 waits at ops; one event of the supervisor."""
    for seq in (1, 2, 3):
        fill.event("shop", seq, endpoints=("ops", "team"))
    fill.event("_supervisor", 1, "supervisor.started")
    fill.dead_letter("shop", 2)
    fill.run(webhook_streams.insert().values(stream="shop", last_seq=3))
    for endpoint, acked in (("ops", 2), ("team", 3)):
        values = {"stream": "shop", "endpoint": endpoint, "acked_seq": acked, "attempts": 1}
        values |= {"next_attempt_at": now() + 60_000, "last_error": "503 from the receiver"} if acked == 2 else {}
        fill.run(webhook_cursors.insert().values(values))


# --- from the database -----------------------------------------------------------------------------------------------


def test_list_tells_what_became_of_each_event(folder: Path) -> None:
    """Newest first, each endpoint with its outcome; beside a running supervisor, and after it has ended."""
    with Fill(folder / "state" / "checkvisor.db") as fill:
        _queue(fill)
        beside = call("events", "list", "shop", cwd=folder)
    after = call("events", "list", "shop", cwd=folder)
    assert beside.returncode == after.returncode == 0, beside.stderr + after.stderr
    assert beside.stdout == after.stdout
    outcomes = [(line.split()[0], line.partition("Z  ")[2]) for line in after.stdout.splitlines()[1:]]
    assert outcomes == [
        ("shop:3", "ops: waiting, team: delivered"),
        ("shop:2", "ops: failed, team: delivered"),
        ("shop:1", "ops: delivered, team: delivered"),
    ]
    data = json.loads(call("events", "list", "--json", "--limit", "3", cwd=folder).stdout)
    assert len(data["items"]) == 3
    everything = json.loads(call("events", "list", "--json", cwd=folder).stdout)["items"]
    assert {one["id"] for one in everything} == {"shop", "_supervisor"}
    waiting = next(one for one in everything if one["eventId"] == "shop:3")["endpoints"][0]
    assert waiting["error"] == "503 from the receiver"
    assert waiting["nextAttemptAt"].endswith("Z")


def test_show_gives_one_event_whole(folder: Path) -> None:
    """Its outcomes with their reasons and its body; an event that is not there is a sentence and status 4."""
    with Fill(folder / "state" / "checkvisor.db") as fill:
        _queue(fill)
    data = json.loads(call("events", "show", "shop:2", "--json", cwd=folder).stdout)
    assert data["seq"] == 2
    assert data["body"] == {}
    assert "was not delivered" in data["endpoints"][0]["error"]
    assert "ops: failed: webhook event shop:2" in call("events", "show", "shop:2", cwd=folder).stdout
    missing = call("events", "show", "shop:9", cwd=folder)
    assert (missing.returncode, missing.stdout) == (4, "")
    assert "there is no event shop:9" in missing.stderr


@pytest.mark.parametrize(
    "command", [("list", "\udcff"), *((name, "\udcff:1") for name in ("show", "redeliver", "skip"))]
)
def test_an_id_that_is_no_text_is_a_sentence(folder: Path, command: tuple[str, ...]) -> None:
    """Bytes that are not UTF-8 can't be an id: wrong usage."""
    with Fill(folder / "state" / "checkvisor.db") as fill:
        _queue(fill)
    done = call("events", *command, cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert "\\udcff" in done.stderr
    assert "UTF-8" in done.stderr


@pytest.mark.parametrize("command", [("events", "list"), ("backup", "copy.db")], ids=" ".join)
def test_no_database_is_a_sentence(folder: Path, command: tuple[str, ...]) -> None:
    """Status 4, and the path that was looked at."""
    done = call(*command, cwd=folder)
    assert done.returncode == 4
    assert f"there is no database {folder}/state/checkvisor.db" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_state_directory_is_the_default(tmp_path: Path) -> None:
    """Without runtime.dataDir it is $STATE_DIRECTORY, else `data` beside the file, as when the supervisor starts."""
    write(tmp_path, "targets: []\n")
    (tmp_path / "s").mkdir()
    with Fill(tmp_path / "s" / "checkvisor.db") as fill:
        _queue(fill)
    assert call("events", "list", cwd=tmp_path, STATE_DIRECTORY=str(tmp_path / "s")).returncode == 0
    done = call("events", "list", cwd=tmp_path)
    assert done.returncode == 4
    assert "/data/checkvisor.db" in done.stderr


def test_backup_is_a_whole_copy(folder: Path) -> None:
    """The copy has the data; an impossible place is a sentence and status 4."""
    with Fill(folder / "state" / "checkvisor.db") as fill:
        fill.target("shop")
        done = call("backup", "copy.db", cwd=folder)
        assert done.returncode == 0, done.stderr
        assert call("backup", "nowhere/copy.db", cwd=folder).returncode == 4
    assert done.stdout.startswith(f"{folder}/state/checkvisor.db copied to copy.db, ")
    with closing(sqlite3.connect(folder / "copy.db")) as copy:
        assert copy.execute("SELECT key FROM targets").fetchall() == [("shop",)]


# --- asked of the supervisor -----------------------------------------------------------------------------------------


@contextmanager
def _control(path: Path, answer: bytes) -> Iterator[list[dict[str, Any]]]:
    """A control socket that gives this answer to each request."""
    requests: list[dict[str, Any]] = []
    directory = os.open(path.parent, os.O_PATH)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(f"/proc/self/fd/{directory}/{path.name}")
    os.close(directory)
    listener.listen()

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rwb") as stream:
                line = stream.readline()
                if line:
                    requests.append(json.loads(line))
                    stream.write(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield requests
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def _ok(result: Any) -> bytes:
    return json.dumps({"ok": True, "result": result}).encode() + b"\n"


def test_attempts_are_shown(folder: Path) -> None:
    """What each endpoint answered; status 0 only if all took it."""
    good = {"endpoint": "ops", "eventId": "shop:1", "delivered": True, "detail": "200 in 12 ms"}
    bad = good | {"endpoint": "team", "delivered": False, "detail": "503 \x1b[2J"}
    with _control(folder / "state" / "control.sock", _ok([good])) as requests:
        done = call("events", "redeliver", "shop:1", "--endpoint", "ops", cwd=folder)
        assert (done.returncode, done.stdout) == (0, "ops: delivered: 200 in 12 ms\n")
    assert requests == [{"command": "redeliver", "eventId": "shop:1", "endpoint": "ops"}]
    runtime = folder / ("r" * 100)  # longer than an address of a socket may be
    runtime.mkdir()
    with _control(runtime / "control.sock", _ok([good, bad])) as requests:
        done = call("events", "test", "shop", cwd=folder, RUNTIME_DIRECTORY=str(runtime))
        data = call("events", "test", "shop", "--json", cwd=folder, RUNTIME_DIRECTORY=str(runtime))
    assert done.returncode == data.returncode == 4
    assert done.stdout.splitlines()[1] == "team: not delivered: 503 \\x1b[2J"
    assert json.loads(data.stdout) == [good, bad]
    assert requests[0] == {"command": "test", "target": "shop", "endpoint": None}


def test_skip_names_the_endpoints(folder: Path) -> None:
    """Where the event was given up."""
    with _control(folder / "state" / "control.sock", _ok(["ops", "team"])) as requests:
        done = call("events", "skip", "shop:3", cwd=folder)
    assert (done.returncode, done.stdout) == (0, "shop:3 skipped for ops, team\n")
    assert requests == [{"command": "skip", "eventId": "shop:3", "endpoint": None}]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b'{"ok": false, "error": "there is no webhook \'x\'"}\n', "checkvisor: there is no webhook 'x'"),
        (b"", "ended the connection"),
        (b"nonsense\n", "not JSON"),
        (b'{"fine": 1}\n', "of another version"),
        (b"[]\n", "of another version"),
    ],
    ids=["refused", "closed", "nonsense", "other", "array"],
)
def test_refusals_are_sentences(folder: Path, answer: bytes, said: str) -> None:
    """Whatever comes back: one sentence, status 4."""
    with _control(folder / "state" / "control.sock", answer):
        done = call("events", "skip", "shop:3", cwd=folder)
    assert (done.returncode, done.stdout) == (4, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("left", ["nothing", "socket", "directory"])
def test_no_supervisor_is_a_sentence(folder: Path, left: str) -> None:
    """Also where a killed one has left its socket, and where there is no data directory."""
    path = folder / "state" / "control.sock"
    if left == "socket":
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
            dead.bind(str(path))
    elif left == "directory":
        path.parent.rmdir()
    done = call("events", "test", "shop", cwd=folder)
    assert done.returncode == 4
    assert f"no supervisor answers at {path}" in done.stderr


def test_the_real_supervisor_answers(tmp_path: Path) -> None:
    """`events test` makes a running supervisor send a sample; unknown targets and events are sentences."""
    with script_server(lambda _request, _connection: [OK, length(b"")]) as receiver:
        write(
            tmp_path,
            'runtime: {metricsListen: "", maxConcurrentChecks: 1}\n'
            f"webhooks: [{{name: ops, url: '{receiver.url}', default: true}}]\n"
            "targets:\n" + command_target("shop", "true"),
        )
        with running("run", cwd=tmp_path) as run:
            run.wait_for("supervisor.started")
            done = checkvisor("events", "test", "shop", cwd=tmp_path)
            assert done.returncode == 0, done.stderr + done.stdout
            assert done.stdout.startswith("ops: delivered: ")
            assert b'"target.test"' in b"".join(receiver.requests)
            assert "no target 'nope'" in checkvisor("events", "test", "nope", cwd=tmp_path).stderr
            assert "there is no event shop:9" in checkvisor("events", "redeliver", "shop:9", cwd=tmp_path).stderr
            assert run.end() == 0
