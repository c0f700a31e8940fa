"""docs/adding-a-checker.md is true: its blocks are put into a copy of the packages, and the command runs there.

A block is marked by the comment before it: `file:` is a new file, `entry:` are lines for a registry in a file, and
`example:` is a configuration.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from supervisor import processes

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "docs" / "adding-a-checker.md").read_text()
BLOCK = re.compile(r"<!-- (file|entry|example): (\S+)(?: (\w+))? -->\n```\w+\n(.*?)```", re.DOTALL)
COPIED = ("supervisor", "webui", "pyproject.toml", "config.yaml")
TESTS = ("__init__", "conftest", "make", "servers", "checkers/__init__", "checkers/scenes", "checkers/test_contract")
DAY_S = 86400


@dataclass(frozen=True, slots=True)
class Copy:
    """The packages with the new type, and a place for configurations."""

    root: Path
    example: str

    def run(self, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Python with the copy in front of everything else."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("CHECKVISOR_", "PYTEST_"))}
        environ = kept | {"PYTHONPATH": str(self.root), "PYTHONDONTWRITEBYTECODE": "1"}
        before = set(processes.children())
        done = subprocess.run(
            [sys.executable, "-P", "-m", *arguments], cwd=cwd, env=environ, capture_output=True, text=True, timeout=90
        )
        self._reap(set(processes.children()) - before)
        return done

    @staticmethod
    def _reap(orphans: set[int]) -> None:
        """Tests of commands make us a subreaper: the forkserver of a command that has ended becomes ours."""
        deadline = time.monotonic() + 10
        while orphans := {pid for pid in orphans.intersection(processes.children()) if not processes.reap(pid)}:
            assert time.monotonic() < deadline, f"the command left {orphans} behind"
            time.sleep(0.01)

    def checkvisor(self, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        done = self.run("supervisor", *arguments, cwd=cwd)
        assert "Traceback" not in done.stderr, done.stderr
        return done


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """The project after someone has followed the page."""
    root = tmp_path_factory.mktemp("project")
    without_caches = shutil.ignore_patterns("__pycache__")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, root / name, ignore=without_caches)
        else:
            shutil.copy(ROOT / name, root / name)
    (root / "tests" / "checkers").mkdir(parents=True)
    for name in TESTS:
        shutil.copy(ROOT / "tests" / f"{name}.py", root / "tests" / f"{name}.py")
    examples = []
    for kind, name, registry, block in BLOCK.findall(TEXT):
        if kind == "file":
            assert not (root / name).exists(), f"{name} is a new file"
            (root / name).write_text(block)
        elif kind == "entry":
            (root / name).write_text(with_entry((root / name).read_text(), registry, block))
        else:
            examples.append(block)
    [example] = examples
    return Copy(root, example)


def with_entry(module: str, registry: str, block: str) -> str:
    """The module with the block's imports behind its own and the block's other lines at the end of the registry."""
    lines = block.splitlines(keepends=True)
    imports = "".join(line for line in lines if line.startswith(("from ", "import ")))
    entry = "".join(line for line in lines if line.strip() and not line.startswith(("from ", "import ")))
    begin = re.search(rf"^{registry}\b.*= \{{", module, re.MULTILINE)
    last_import = list(re.finditer(r"^(?:from|import) .*\n", module, re.MULTILINE))[-1]
    assert begin is not None, f"there is no {registry}"
    end = re.compile(r"^\}|(?<=[^{])\}$", re.MULTILINE).search(module, begin.end())
    assert end is not None, f"{registry} has no end"
    entries = module[: end.start()].rstrip().rstrip(",")
    return f"{module[: last_import.end()]}{imports}{entries[last_import.end() :]},\n{entry}{module[end.start() :]}"


@pytest.mark.parametrize("registry", ["R: dict = {'x': 1}", "R = {\n    'x': 1,\n}\n\nb = {}"], ids=["line", "lines"])
def test_an_entry_comes_into_the_registry(registry: str) -> None:
    """However the registry is laid out."""
    made = with_entry(f"import a\n\n{registry}\n", "R", "import c\n\n    'y': 2,\n")
    names: dict[str, object] = {}
    exec(re.sub(r"^import .*\n", "", made, flags=re.MULTILINE), names)
    assert names["R"] == {"x": 1, "y": 2}
    assert made.startswith("import a\nimport c\n")


@pytest.fixture
def backup(copy: Copy, tmp_path: Path) -> Path:
    """The file that the example on the page looks at, beside the configuration."""
    (tmp_path / "config.yaml").write_text(copy.example)
    (tmp_path / "config.yaml").chmod(0o600)
    (tmp_path / "backup.gz").write_text("backup")
    return tmp_path / "backup.gz"


def test_the_example_is_valid(copy: Copy, backup: Path) -> None:
    """The new type loads, with its defaults, and its path is seen from the configuration."""
    done = copy.checkvisor("validate", "config.yaml", cwd=backup.parent)
    assert (done.returncode, done.stderr) == (0, "")
    [listed] = json.loads(copy.checkvisor("list", "--json", cwd=backup.parent).stdout)
    assert listed["type"] == "file"
    explained = copy.checkvisor("explain", "nightly-backup", cwd=backup.parent).stdout
    assert str(backup) in explained
    assert re.search(r"file\.followLinks.*defaults at .*config\.yaml:2", explained), explained


@pytest.mark.parametrize(
    ("age_s", "status", "word"),
    [(60, 0, "matched"), (24.5 * 3600, 0, "degraded"), (2 * DAY_S, 1, "mismatch"), (None, 3, "error")],
    ids=["matched", "degraded", "mismatch", "error"],
)
def test_the_new_type_is_checked(copy: Copy, backup: Path, age_s: float | None, status: int, word: str) -> None:
    """In a worker process, to each of the outcomes, with its trace."""
    if age_s is None:
        backup.unlink()
    else:
        os.utime(backup, (time.time() - age_s, time.time() - age_s))
    done = copy.checkvisor("check", "nightly-backup", cwd=backup.parent)
    assert done.returncode == status, done.stdout + done.stderr
    assert f"\n{word} " in done.stdout, done.stdout
    assert re.search(r" ms +(info|failed) +stat", done.stdout), done.stdout
    assert ("expect.maxAge: the file is" in done.stdout) == (word == "mismatch")
    assert ("can't be looked at: No such file" in done.stdout) == (word == "error")


MISTAKES = (  # what is replaced, what is written instead, and what is said about it
    ("path: backup.gz", "pth: backup.gz", "targets[0].file.pth: unknown key: did you mean path?"),
    ("maxAge: 25h", "maxAge: 25", "targets[0].expect.maxAge: expected a duration with its unit such as 25s"),
    ("maxAge: 25h", "status: 200", "targets[0].expect.status: unknown key"),
    ("interval: 5m", "path: x", "targets[0].path: does not belong here: write it under file: of the target"),
    ("file: {path: backup.gz}", "group: x", "targets[0].file: is missing: expected a mapping with path"),
    ("interval: 5m", "http: {}", "targets[0].http: does not belong here: it is for targets of type http"),
    ("type: file", "type: flie", "targets[0].type: expected one of http, command, file"),
    ("file: {follow", "file: {path: x, follow", "defaults.file.path: unknown key"),
)


def test_mistakes_have_their_sentence(copy: Copy, backup: Path) -> None:
    """Every message about a new type comes from its schemas."""
    names = []
    for number, (right, wrong, _sentence) in enumerate(MISTAKES):
        assert right in copy.example
        names.append(f"{number}.yaml")
        (backup.parent / names[-1]).write_text(copy.example.replace(right, wrong, 1))
    done = copy.checkvisor("validate", *names, cwd=backup.parent)
    assert done.returncode == 2
    said = done.stderr.splitlines()
    for name, (_right, _wrong, sentence) in zip(names, MISTAKES, strict=True):
        assert any(line.startswith(f"{name}:") and sentence in line for line in said), (sentence, done.stderr)


def test_doubts_have_their_place(copy: Copy, backup: Path) -> None:
    """The warning of the new type stands at the value that it is about."""
    (backup.parent / "config.yaml").write_text(copy.example.replace("backup.gz", "."))
    done = copy.checkvisor("validate", "config.yaml", cwd=backup.parent)
    assert done.returncode == 0
    assert "config.yaml:7:18: targets[0].file.path: this is a directory" in done.stderr, done.stderr


def test_editors_know_the_new_type(copy: Copy, tmp_path: Path) -> None:
    """The JSON Schema has its keys, under `targets` and under `defaults`."""
    schema = json.loads(copy.checkvisor("schema", cwd=tmp_path).stdout)
    variants = {one["properties"]["type"]["const"]: one for one in schema["properties"]["targets"]["items"]["oneOf"]}
    assert list(variants) == ["http", "command", "file"]
    assert list(variants["file"]["properties"]["file"]["properties"]) == ["followLinks", "path"]
    assert list(schema["properties"]["defaults"]["properties"]["file"]["properties"]) == ["followLinks"]


def test_the_contract_suite_takes_it_in(copy: Copy) -> None:
    """The scenes of the page play in the suite, and the new type holds to the contract."""
    done = copy.run(
        "pytest", "-q", "-p", "no:cacheprovider", "tests/checkers/test_contract.py", "-k", "file: or kind or agree",
        cwd=copy.root,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) >= 17, done.stdout  # type: ignore[index]
