"""The few exceptions that cross modules. Expected outcomes of a check are values (`CheckFailure`), never these."""

from __future__ import annotations

from dataclasses import dataclass


class CheckvisorError(Exception):
    """The root: `str()` is one sentence for the user; `exit_status` is what the command line ends with."""

    exit_status = 4


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong (or doubtful) in the configuration, with its place. Lines and columns count from 1."""

    file: str
    line: int
    column: int
    path: str
    message: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}"
        return f"{place}: {self.path}: {self.message}" if self.path else f"{place}: {self.message}"


class ConfigError(CheckvisorError):
    """The configuration can't be used; carries every problem found, in file order."""

    exit_status = 2

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


class StoreError(CheckvisorError):
    """The database file must not be used: newer, corrupt or foreign. Passing faults are not this (see store/write)."""


class StartError(CheckvisorError):
    """The supervisor can't start: data directory locked, no worker starts, descriptors too few."""
