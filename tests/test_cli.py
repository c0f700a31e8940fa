"""The command line itself: usage, errors, output, and the commands that read the configuration."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from supervisor import __version__, clash
from supervisor.cli import checkvisor as group
from tests.cli_support import COMMAND, call, checkvisor, command_target, environment, write

TARGETS = (
    "targets:\n"
    + command_target("disk", "df /", group="Machine", labels={"team": "ops"})
    + "  - {id: page, name: Page, type: http, interval: 1m30s, enabled: false,\n"
    + '     http: {url: "http://127.0.0.1:9/?token=${TOKEN}"}}\n'
)


def commands(parent: click.Group = group, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], click.Command]]:
    """Every command with its words."""
    found: list[tuple[tuple[str, ...], click.Command]] = []
    for name, command in parent.commands.items():
        found.append(((*path, name), command))
        if isinstance(command, click.Group):
            found += commands(command, (*path, name))
    return found


COMMANDS = commands()


# --- usage -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "command"), COMMANDS, ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_every_command_has_help_with_an_example(words: tuple[str, ...], command: click.Command) -> None:
    """`--help` explains the command and each option, and shows an example that can be typed."""
    with click.Context(command, info_name=words[-1], parent=click.Context(group, info_name="checkvisor")) as context:
        text = command.get_help(context)
    assert f"Example: checkvisor {' '.join(words)}" in text
    assert all(option.help for option in command.params if isinstance(option, click.Option))
    shown = command.get_short_help_str(56)
    assert not shown.endswith("...")


def test_the_command_shows_its_version_quickly(tmp_path: Path) -> None:
    """`--version` and `version` load nothing of the rest."""
    assert checkvisor("--version", cwd=tmp_path).stdout == f"checkvisor {__version__}\n"
    assert json.loads(checkvisor("version", "--json", cwd=tmp_path).stdout)["version"] == __version__
    heavy = "{'sqlalchemy', 'lxml', 'marshmallow', 'requests'}"
    script = f"import sys, supervisor.cli; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, check=True, text=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("bogus",), "No such command 'bogus'. See: checkvisor --help"),
        (("list", "--bogus"), "No such option '--bogus'. See: checkvisor list --help"),
        (("check",), "Missing argument 'ID'. See: checkvisor check --help"),
        (("events", "show", "x"), "is no event id"),
        (("events", "list", "--limit", "0"), "'--limit'"),
        (("list", "-c", ""), "expected a path"),
        (("explain", "disk", "--yaml", "--json"), "can't stand together"),
        (("list",), "neither ./config.yaml nor /etc/checkvisor/config.yaml exists; name one with -c"),
        (("list", "-c", "nowhere.yaml"), "nowhere.yaml:1:1: the file can't be read: No such file or directory"),
        (("run", "-c", "nowhere"), "nowhere:1:1: the file can't be read"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_usage_is_one_sentence(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    """Status 2, one line on stderr, nothing on stdout."""
    start = checkvisor if arguments[0] == "run" else call  # `run` sets up logging for its whole process
    done = start(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_unknown_target_names_the_nearest(tmp_path: Path) -> None:
    """The sentence helps with a typo; its control characters are shown, not sent."""
    write(tmp_path, TARGETS)
    done = call("explain", "dsk\x1b", cwd=tmp_path, TOKEN="t0k3n-canary")
    assert done.returncode == 2
    assert "did you mean disk?" in done.stderr
    assert "\x1b" not in done.stderr


# --- output ----------------------------------------------------------------------------------------------------------


def test_a_closed_pipe_is_no_error_message(tmp_path: Path) -> None:
    """`checkvisor schema | head -1` prints one line and nothing else."""
    command = subprocess.list2cmdline([*COMMAND, "schema"])
    done = subprocess.run(
        ["bash", "-c", f"{command} | head -1; exit ${{PIPESTATUS[0]}}"],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("{\n", "")
    assert done.returncode in (0, 141)  # small pipes end before they are full


@pytest.mark.parametrize("redirection", ["> /dev/full", ">&-", "2>&- < /dev/null"])
def test_a_stdout_that_takes_nothing_is_no_traceback(tmp_path: Path, redirection: str) -> None:
    """A full disk is said with status 4; closed streams are none of our business."""
    command = subprocess.list2cmdline([*COMMAND, "version"])
    done = subprocess.run(
        ["bash", "-c", f"{command} {redirection}"], cwd=tmp_path, env=environment(), capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr
    full = "full" in redirection
    assert done.returncode == (4 if full else 0)
    assert done.stderr == ("checkvisor: No space left on device\n" if full else "")


def test_file_names_need_not_be_utf8(tmp_path: Path) -> None:
    """A name of any bytes works, and is shown with its bytes escaped, also as JSON."""
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    write(folder, TARGETS)
    name = b"caf\xe9/config.yaml"
    done = checkvisor("validate", name, cwd=tmp_path, TOKEN="t0k3n-canary")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "caf\\udce9/config.yaml: valid, 2 targets, 0 webhooks\n"
    found = json.loads(checkvisor("validate", "--json", name, cwd=tmp_path, TOKEN="t0k3n-canary").stdout)
    assert os.fsencode(found["configurations"][0]["path"]) == name
    assert checkvisor("validate", b"\xff", cwd=tmp_path).returncode == 2
    assert checkvisor("backup", b"\xff", "-c", name, cwd=tmp_path).returncode == 4


def test_terminals_that_know_few_characters_get_json(tmp_path: Path) -> None:
    """JSON stays JSON in an encoding that lacks a character; text is escaped."""
    write(tmp_path, "targets:\n" + command_target("a", "true", group="Größe 😀"))
    found = checkvisor("list", "--json", cwd=tmp_path, PYTHONIOENCODING="latin-1")
    assert json.loads(found.stdout)[0]["group"] == "Größe 😀"
    assert checkvisor("list", cwd=tmp_path, PYTHONIOENCODING="ascii").returncode == 0


def test_a_defect_is_a_sentence(tmp_path: Path) -> None:
    """An error nobody expected gives status 4, its place, and no traceback; CHECKVISOR_DEBUG shows it."""
    script = (
        "import sys, supervisor.cli as cli; cli.checkvisor.commands['version'].callback = lambda **_: 1 / 0; "
        "sys.exit(cli.main(['version']))"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True)
    assert done.returncode == 4
    assert "defect of Checkvisor" in done.stderr
    assert "ZeroDivisionError" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    debug = subprocess.run(command, cwd=tmp_path, env=environment(CHECKVISOR_DEBUG="1"), capture_output=True, text=True)
    assert "Traceback" in debug.stderr


# --- the name clash --------------------------------------------------------------------------------------------------


def _copy(tmp_path: Path, *names: str) -> Path:
    """An import path on which our package has these files too, and what is told when the command starts there."""
    source = Path(clash.__file__).parent
    home = tmp_path / "site"
    home.mkdir()
    (home / "supervisor").mkdir()
    for entry in source.iterdir():
        if entry.name not in names and entry.name != "__pycache__":
            (home / "supervisor" / entry.name).symlink_to(entry)
    return home


def _start_on(home: Path, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "supervisor", "version"], cwd=tmp_path, env=environment(PYTHONPATH=str(home)),
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def test_supervisord_in_the_same_folder_is_said(tmp_path: Path) -> None:
    """Merged files, their empty __init__ in the place of ours: one sentence and status 4."""
    home = _copy(tmp_path, "__init__.py", "clash.py")
    (home / "supervisor" / "__init__.py").write_text("#\n")
    (home / "supervisor" / "clash.py").write_text(Path(clash.__file__).read_text())
    (home / "supervisor" / "supervisord.py").write_text("def main(): pass\n")
    done = _start_on(home, tmp_path)
    assert (done.returncode, done.stdout) == (4, "")
    assert "PyPI's package 'supervisor' (supervisord) is installed in the same environment" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_distribution_of_supervisord_is_said(tmp_path: Path) -> None:
    """Its metadata before us on the import path are enough; behind us and outside our venv it is harmless."""
    home = tmp_path / "site"
    info = home / "supervisor-4.2.5.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: supervisor\nVersion: 4.2.5\n")
    done = _start_on(home, tmp_path)
    assert done.returncode == 4
    assert str(home) in done.stderr
    ours = str(Path(clash.__file__).parents[1])
    harmless = subprocess.run(
        [sys.executable, "-m", "supervisor", "version"], cwd=tmp_path,
        env=environment(PYTHONPATH=f"{ours}:{home}"), capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (harmless.returncode, harmless.stderr) == (0, "")


# --- validate, list, explain, schema ---------------------------------------------------------------------------------


def test_validate_lists_every_problem_of_every_path(tmp_path: Path) -> None:
    """Each path is a configuration of its own; problems stand on stderr with their places, and as data with --json."""
    good = write(tmp_path, TARGETS, "good.yaml")
    bad = write(tmp_path, "targets:\n  - {name: a, type: http}\nbogus: 1\n", "bad.yaml")
    folder = tmp_path / "conf.d"
    folder.mkdir()
    write(folder, TARGETS, "a.yaml")
    done = call("validate", bad.name, good.name, "-c", folder.name, cwd=tmp_path, TOKEN="t0k3n-canary")
    assert done.returncode == 2
    assert done.stdout.splitlines() == [
        "conf.d: valid, 2 targets, 0 webhooks",
        "good.yaml: valid, 2 targets, 0 webhooks",
    ]
    places = [line.split(": ")[0] for line in done.stderr.splitlines()]
    assert places == ["bad.yaml:2:5", "bad.yaml:3:1", "bad.yaml"]
    done = call("validate", "--json", bad.name, good.name, cwd=tmp_path, TOKEN="t0k3n-canary")
    found = json.loads(done.stdout)
    assert (done.returncode, found["valid"], done.stderr) == (2, False, "")
    first, second = found["configurations"]
    assert {"file": "bad.yaml", "line": 3, "column": 1, "path": "bogus"}.items() <= first["problems"][1].items()
    assert second == {
        "path": "good.yaml", "valid": True, "files": ["good.yaml"], "targets": 2, "webhooks": 0, "warnings": [],
        "problems": [],
    }  # fmt: skip


def test_validate_tells_warnings(tmp_path: Path) -> None:
    """Warnings stand on stderr and leave the configuration valid."""
    write(tmp_path, "targets:\n" + command_target("a", "true", interval="1s", timeout="5s"))
    done = call("validate", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr.startswith("warning: config.yaml:")
    assert done.stdout == "config.yaml: valid, 1 target, 0 webhooks, 1 warning\n"


def test_insecure_configurations_are_refused(tmp_path: Path) -> None:
    """Files that everybody may change are refused with command targets, unless one says that this is meant."""
    write(tmp_path, "targets:\n" + command_target("a", "true")).chmod(0o666)
    assert call("validate", cwd=tmp_path).returncode == 2
    assert call("list", cwd=tmp_path).returncode == 2
    assert call("validate", "--insecure-config", cwd=tmp_path).returncode == 0
    assert call("list", "--insecure-config", cwd=tmp_path).returncode == 0


def test_list_shows_targets_without_secrets(tmp_path: Path) -> None:
    """In file order, as a table or as data; the configuration may be named by a variable."""
    file = write(tmp_path, TARGETS, "elsewhere.yaml")
    variables = {"TOKEN": "t0k3n-canary", "CHECKVISOR_CONFIG": str(file)}
    table = call("list", cwd=tmp_path, **variables)
    lines = table.stdout.splitlines()
    assert lines[0].split() == ["ID", "NAME", "GROUP", "TYPE", "INTERVAL", "TARGET"]
    assert lines[1].split()[:3] == ["disk", "disk", "Machine"]
    assert "paused" in lines[2]
    data = call("list", "--json", cwd=tmp_path, **variables)
    assert "canary" not in table.stdout + data.stdout
    found: list[dict[str, Any]] = json.loads(data.stdout)
    assert [one["id"] for one in found] == ["disk", "page"]
    assert found[1]["intervalMs"] == 90_000
    assert found[1]["enabled"] is False
    assert found[0]["labels"] == {"team": "ops"}


def test_explain_gives_values_with_their_origin(tmp_path: Path) -> None:
    """As a table, as data, and as YAML that is a configuration again; no secret in any of them."""
    write(tmp_path, "defaults: {timeout: 7s}\n" + TARGETS)
    variables = {"TOKEN": "t0k3n-canary"}
    table = call("explain", "page", cwd=tmp_path, **variables).stdout
    assert "defaults at config.yaml:1" in next(line for line in table.splitlines() if line.startswith("timeout "))
    data = call("explain", "page", "--json", cwd=tmp_path, **variables).stdout
    values = {one["path"]: one for one in json.loads(data)["values"]}
    assert values["timeout"] == {"path": "timeout", "value": "7s", "origin": "defaults at config.yaml:1"}
    yaml = call("explain", "page", "--yaml", cwd=tmp_path, **variables).stdout
    assert "canary" not in table + data + yaml
    write(tmp_path, yaml, "again.yaml")
    done = call("validate", "again.yaml", cwd=tmp_path, **variables)
    assert done.stdout == "again.yaml: valid, 1 target, 0 webhooks\n"


def test_schema_is_a_json_schema(tmp_path: Path) -> None:
    """What is printed is the schema in docs/."""
    found = json.loads(call("schema", cwd=tmp_path).stdout)
    assert found == json.loads((Path(__file__).parents[1] / "docs" / "config.schema.json").read_text())


def test_an_interrupt_is_no_traceback(tmp_path: Path) -> None:
    """Ctrl-C ends a command with 130, wherever it is."""
    fifo = tmp_path / "config.yaml"
    os.mkfifo(fifo)
    process = subprocess.Popen(
        [*COMMAND, "list", "-c", "config.yaml"], cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True
    )
    writer = os.open(fifo, os.O_WRONLY)  # waits until the command reads
    process.send_signal(signal.SIGINT)
    assert "Traceback" not in process.communicate(timeout=10)[1]
    os.close(writer)
    assert process.returncode == 130
