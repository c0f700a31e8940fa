"""The Makefile: every target is explained, and nothing in it is newer than GNU make 3.81."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "Makefile").read_text()
WANTED = {"help", "run", "test", "lint", "types", "bench", "bench-full", "soak", "lock", "clean"}


def test_help_names_every_target() -> None:
    """`make` alone shows each target that is meant for people."""
    said = subprocess.run(["make", "-C", str(ROOT)], capture_output=True, text=True, check=True).stdout
    phony = set(re.findall(r"^\.PHONY:(.*)$", TEXT, flags=re.MULTILINE)[0].split())
    assert phony >= WANTED
    for target in phony - {"help", "runtime", "dev"}:
        assert re.search(rf"make {target}\b|; {target}\b", said), target


def test_no_feature_after_make_3_81() -> None:
    """No `.ONESHELL`, `!=`, `::=`, `$(file ...)`, `$(let ...)`, grouped targets: macOS has GNU make 3.81."""
    for feature in (r"\.ONESHELL", r"^\S+\s*!=", "::=", r"\$\((file|let|intcmp) ", "&:", r"\.EXTRA_PREREQS"):
        assert not re.search(feature, TEXT, flags=re.MULTILINE), feature


def test_the_audit_fails_for_what_it_could_not_look_up() -> None:
    """Without --strict, pip-audit says "No known vulnerabilities found" where it has reached no list of them at all."""
    said = subprocess.run(["make", "-C", str(ROOT), "-n", "audit"], capture_output=True, text=True, check=True).stdout
    assert re.search(r"pip-audit .*--strict", said)


def test_what_others_may_write_is_closed_and_said(tmp_path: Path) -> None:
    """`make run` in a clone made with umask 002: the configuration loses the group's right, and a line says so."""
    config = tmp_path / "config.yaml"
    config.write_text("targets: []\n")
    config.chmod(0o664)
    recipe = re.search(r"^run: runtime\n((?:\t.*\n)+?)\t@exec", TEXT, flags=re.MULTILINE)
    assert recipe is not None
    (tmp_path / "Makefile").write_text(f"CONFIG = config.yaml\nrun:\n{recipe[1]}")
    once = subprocess.run(["make", "-C", str(tmp_path), "run"], capture_output=True, text=True, check=True)
    again = subprocess.run(["make", "-C", str(tmp_path), "run"], capture_output=True, text=True, check=True)
    assert "others could write config.yaml" in once.stdout
    assert "others could write" not in again.stdout
    assert config.stat().st_mode & 0o777 == 0o644
