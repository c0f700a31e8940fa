"""How targets are checked: one package a type, listed by hand. A name that can't be grepped costs more than a line."""

from supervisor.checkers.base import Checker
from supervisor.checkers.command import CommandChecker
from supervisor.checkers.http import HttpChecker

CHECKERS: dict[str, Checker] = {
    "http": HttpChecker(),
    "command": CommandChecker(),
}
