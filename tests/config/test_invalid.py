"""Every file in data/config/invalid, with the exact sentences that users read."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor import config
from tests.config.support import DATA, ENVIRONMENT

FILES = sorted((DATA / "invalid").glob("*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_invalid_file_has_these_problems(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The problems are exactly those in the .txt beside the file."""
    monkeypatch.chdir(file.parent)
    with pytest.raises(config.ConfigError) as caught:
        config.load(Path(file.name), environ=ENVIRONMENT)
    assert f"{caught.value}\n" == file.with_suffix(".txt").read_text()


def test_there_are_enough() -> None:
    """The folder was not emptied by accident."""
    assert len(FILES) >= 60


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_every_problem_has_a_place_and_a_sentence(file: Path) -> None:
    """Each line says file, line, column and what is wrong; none shows Python."""
    for line in file.with_suffix(".txt").read_text().splitlines():
        name, row, column, rest = line.split(":", 3)
        assert name == file.name
        assert int(row) >= 1
        assert int(column) >= 1
        assert rest.strip()
        for word in ("Traceback", "Error(", "<class", "NoneType", "object at 0x", "Text("):
            assert word not in rest
