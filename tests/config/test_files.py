"""Which files are read: directories, includes, permissions, the fingerprint."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor import config
from supervisor.errors import ConfigError
from tests.config.support import command, http, load, problems

ROOT = os.geteuid() == 0
WRITER = """
import sys
with open(sys.argv[1], "w") as pipe:
    pipe.write("targets:\\n")
    for n in range(2000):
        pipe.write(f"  - {{id: t{n}, type: http, http: {{url: 'http://127.0.0.1/'}}}}\\n")
        pipe.flush()
"""


def test_default_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable, then ./config.yaml, then /etc."""
    monkeypatch.chdir(tmp_path)
    assert config.default_path({"CHECKVISOR_CONFIG": "/x/y"}) == Path("/x/y")
    assert config.default_path({}) == Path("/etc/checkvisor/config.yaml")
    (tmp_path / "config.yaml").write_text("")
    assert config.default_path({"CHECKVISOR_CONFIG": ""}) == Path("config.yaml")


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    """Also an unreadable one, and an empty directory."""
    with pytest.raises(ConfigError, match=r"no\.yaml:1:1: the file can't be read: No such file or directory"):
        config.load(tmp_path / "no.yaml", environ={})
    with pytest.raises(ConfigError, match=r"the directory holds no file that ends in \.yaml or \.yml"):
        config.load(tmp_path, environ={})


def test_a_pipe_has_some_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe that nobody writes is a problem and not a hang, as a configuration, an include and a secret; what a writer
    puts into one is read to its end."""
    monkeypatch.setattr("supervisor.config.reading.PIPE_S", 0.2)
    pipe, main = tmp_path / "pipe", tmp_path / "main.yaml"
    os.mkfifo(pipe)
    sentence = r"can't be read: it is a pipe, and its writer did not come to an end within 0\.2 s"
    with pytest.raises(ConfigError, match=rf"pipe:1:1: the file {sentence}"):
        config.load(pipe, environ={})
    main.write_text("include: pipe\n" + http())
    with pytest.raises(ConfigError, match=rf"pipe:1:1: the file {sentence}"):
        config.load(main, environ={})
    main.write_text(http(settings="headers: {Authorization: '${file:pipe}'}"))
    with pytest.raises(ConfigError, match=rf"main\.yaml:.*the file pipe {sentence}"):
        config.load(main, environ={})
    assert config.fingerprint(pipe, environ={})
    monkeypatch.setattr("supervisor.config.reading.PIPE_S", 30.0)
    with subprocess.Popen([sys.executable, "-c", WRITER, str(pipe)]) as writer:
        assert len(config.load(pipe, environ={}).targets) == 2000
        assert writer.wait(10) == 0


def test_includes(tmp_path: Path) -> None:
    """Patterns, single files and directories, relative to the file they stand in; each file is read once."""
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "2.yaml").write_text(http().replace("id: a", "id: two") + "include: [../main.yaml]\n")
    (tmp_path / "conf.d" / "1.yaml").write_text(http().replace("id: a", "id: one"))
    (tmp_path / "more.yaml").write_text("webhooks: [{name: ops, url: 'http://a/', secrets: [], default: true}]\n")
    (tmp_path / "main.yaml").write_text("include: [conf.d/*.yaml, '${FILE}', conf.d]\n" + http())
    loaded = config.load(tmp_path / "main.yaml", environ={"FILE": "more.yaml"})
    assert [one.id for one in loaded.targets] == ["a", "one", "two"]
    assert loaded.targets[0].notify == ("ops",)
    assert [Path(name).name for name in loaded.files] == ["main.yaml", "1.yaml", "2.yaml", "more.yaml"]


def test_a_problem_of_an_included_file_is_told_there(tmp_path: Path) -> None:
    """File, line and path are those of the included file."""
    (tmp_path / "b.yaml").write_text("targets:\n  - {id: b, type: http, http: {}}\n")
    (tmp_path / "a.yaml").write_text("include: b.yaml\n" + http())
    with pytest.raises(ConfigError) as caught:
        config.load(tmp_path / "a.yaml", environ={})
    assert str(caught.value).startswith(f"{tmp_path}/b.yaml:2:31: targets[0].http.url: is missing")


def test_a_pattern_without_files_is_a_warning(tmp_path: Path) -> None:
    """An empty conf.d is no error."""
    assert "no file matches conf.d/*.yaml" in load(tmp_path, "include: [conf.d/*.yaml]\n" + http()).warnings[0]


def test_paths_are_relative_to_their_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`cwd`, `dataDir` and `${file:}` are resolved by the file they stand in, also through defaults and links."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "secret").write_text("hidden-value\r\n")
    text = command("env: {A: '${file:secret}'}") + "runtime: {dataDir: state}\n"
    (tmp_path / "sub" / "b.yaml").write_text(text)
    (tmp_path / "a.yaml").write_text(
        "include: [sub/b.yaml]\ndefaults: {command: {cwd: work}}\n" + command().replace("id: a", "id: b")
    )
    monkeypatch.chdir(tmp_path)
    loaded = config.load(Path("a.yaml"), environ={})
    assert loaded.runtime.data_dir == str(tmp_path / "sub" / "state")
    assert [one.settings.cwd for one in loaded.targets] == [str(tmp_path / "work")] * 2
    assert loaded.targets[1].settings.env == (("A", "hidden-value"),)
    (tmp_path / "a.yaml").write_text("include: [sub/b.yaml]\n" + http().replace("id: a", "id: c"))
    assert config.load(Path("a.yaml"), environ={}).targets[1].settings.cwd == str(tmp_path / "sub")


def test_data_dir(tmp_path: Path) -> None:
    """Built in: $STATE_DIRECTORY, else `data` beside the first file."""
    assert load(tmp_path, http(), {}).runtime.data_dir == str(tmp_path / "data")
    assert load(tmp_path, http(), {"STATE_DIRECTORY": "/var/lib/checkvisor"}).runtime.data_dir == "/var/lib/checkvisor"


def test_a_world_writable_file_with_commands_is_refused(tmp_path: Path) -> None:
    """Without commands, or with --insecure-config, it is a warning."""
    (tmp_path / "config.yaml").write_text("")
    (tmp_path / "config.yaml").chmod(0o666)
    found = problems(tmp_path, command())
    assert found[0].startswith("1:1: every user may change this file, and it can run commands: chmod o-w")
    assert found[0].endswith("or start with --insecure-config")
    assert "every user may change this file" in load(tmp_path, command(), insecure=True).warnings[0]
    assert "every user may change this file" in load(tmp_path, http()).warnings[0]


def test_a_group_writable_file_with_commands(tmp_path: Path) -> None:
    """Refused when the process is root, a warning otherwise: a clone with umask 002 must start."""
    (tmp_path / "config.yaml").write_text("")
    (tmp_path / "config.yaml").chmod(0o664)
    if ROOT:
        assert "it runs commands as root" in problems(tmp_path, command())[0]
    else:
        assert "the group" in load(tmp_path, command()).warnings[0]
    assert "the group" in load(tmp_path, command(), insecure=True).warnings[0]


def test_fingerprint(tmp_path: Path) -> None:
    """It changes with any content, `${file:}` files and broken files included, and not with times or a symlink swap."""
    secret, file = tmp_path / "secret", tmp_path / "config.yaml"
    secret.write_text("first-value")
    text = http("name: '${file:secret}'")
    first = load(tmp_path, text).fingerprint
    assert config.fingerprint(file, environ={}) == first
    os.utime(file, (1, 1))
    assert config.fingerprint(file, environ={}) == first
    secret.write_text("other-value")
    assert config.fingerprint(file, environ={}) != first
    secret.write_text("first-value")
    copy = tmp_path / "copy.yaml"
    copy.write_text(text)
    file.unlink()
    file.symlink_to(copy)
    assert config.fingerprint(file, environ={}) == first
    copy.write_text("targets: [")
    assert config.fingerprint(file, environ={}) != first
    copy.unlink()
    assert config.fingerprint(file, environ={}) != first


def test_limits(tmp_path: Path) -> None:
    """A bomb of aliases, of depth or of bytes ends at once with a sentence."""
    bomb = "x-0: &l0 [x, x, x, x, x, x, x, x, x, x]\n"
    bomb += "".join(f"x-{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]\n" for n in range(1, 30))
    assert "more than 1,000,000 values" in problems(tmp_path, bomb)[0]
    assert "more than 50 levels" in problems(tmp_path, "x-a: " + "[" * 100_000)[0]
    assert "more than 50 levels" in problems(tmp_path, "x-a: " + "{a: " * 100_000)[0]
    assert "aliases" in problems(tmp_path, "x-a: &a b\nx-b: [" + "*a, " * 20_001 + "]\n")[0]
    assert "at most 16,777,216" in problems(tmp_path, b"#" * (16 * 1024 * 1024 + 1))[0]


def test_workers_must_fit_the_descriptors(tmp_path: Path) -> None:
    """A process with a low hard limit refuses, and says what fits."""
    (tmp_path / "config.yaml").write_text("runtime: {maxConcurrentChecks: 100}\n" + http())
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))\n"
        "from pathlib import Path; from supervisor import config\n"
        "try: config.load(Path(sys.argv[1]))\n"
        "except config.ConfigError as exc: print(exc)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "config.yaml"], capture_output=True, text=True, check=True
    )
    assert "100 workers need 664 file descriptors, and the limit is 256: at most 32, or raise the limit" in done.stdout
    assert load(tmp_path, "runtime: {maxConcurrentChecks: 100}\n" + http()).runtime.max_concurrent_checks == 100


def test_fingerprint_of_a_directory(tmp_path: Path) -> None:
    """A new file, an included one and the order count; the same contents give what the load gave."""
    (tmp_path / "more").mkdir()
    (tmp_path / "a.yaml").write_text("include: [more/*.yaml, '${WHERE}']\n" + http("name: '${file:secret}'"))
    (tmp_path / "b.yaml").write_text(http().replace("id: a", "id: b"))
    (tmp_path / "secret").write_text("first-value")
    (tmp_path / "extra.yaml").write_text(http().replace("id: a", "id: x"))
    environ = {"WHERE": "extra.yaml"}
    first = config.load(tmp_path, environ=environ).fingerprint
    assert config.fingerprint(tmp_path, environ=environ) == first
    (tmp_path / "more" / "c.yaml").write_text(http().replace("id: a", "id: c"))
    second = config.fingerprint(tmp_path, environ=environ)
    assert second == config.load(tmp_path, environ=environ).fingerprint != first


def test_what_can_not_be_opened_is_a_sentence(tmp_path: Path) -> None:
    """Names with NUL, endless files, directories where a file is due."""
    assert "expected a file name" in problems(tmp_path, 'include: ["a\\0b"]\n' + http())[0]
    with pytest.raises(ConfigError, match="at most 16,777,216"):
        config.load(Path("/dev/zero"), environ={})
    assert "there is no file gone/x.yaml" in problems(tmp_path, "include: gone/x.yaml\n" + http())[0]
    with pytest.raises(ConfigError, match="can't be read"):
        config.load(Path("a\0b"), environ={})
