"""Guesses at what was meant: the nearest known word for one that is not known. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_BETWEEN = re.compile(r"[_\s\u00a0-]")


def _fold(word: str) -> str:
    return _BETWEEN.sub("", word[:100]).lower()


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word that was probably meant, or nothing. Case, `_`, `-` and blanks do not count."""
    folded = {_fold(name): name for name in known}
    wanted = _fold(word)
    if wanted in folded:
        return folded[wanted]
    close = difflib.get_close_matches(wanted, folded, n=1, cutoff=0.65)
    return folded[close[0]] if close else ""


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """The question, or nothing."""
    near = nearest(word, known) if isinstance(word, str) else ""
    return f"did you mean {near}?" if near else ""
