"""CPU per HTTP and HTTPS check without a pool and a store, beside floors of the same run: `python -m bench.http_check`.

Checks run in this process through `run_check`; its verdict is thrown away (budgets B1 and B2 are with storage). The
server is our own, in another process. Floors: a raw-socket client in Python, and `requests` with one session and a
prepared request. User plus system time of this process per check, median of turns in which all rows take part, so that
a busy moment strikes all.
"""

from __future__ import annotations

import ssl
import statistics
import tempfile
from pathlib import Path

from bench.floors import raw_client, requests_client
from bench.origin import LARGE_WORD, WORD, own
from bench.proc import own_cpu_s
from bench.rows import FULL, Row, options, save
from supervisor.checkers.http import HttpChecker
from supervisor.checkers.http.settings import HttpSettings, TlsSettings
from supervisor.expect.spec import Contains, HttpExpect, TextRule
from supervisor.model import ResolvedTarget
from supervisor.worker import run_check
from tests.make import make_target


def target(url: str, word: str, tls: TlsSettings | None = None) -> ResolvedTarget:
    """Status 200, and the word in the body."""
    return make_target(
        settings=HttpSettings(url=url, tls=tls or TlsSettings()),
        expect=HttpExpect(body=(TextRule("contains", (Contains(word),)),)),
    )


def checked(checkers: dict[str, HttpChecker], it: ResolvedTarget) -> None:
    """One check that must match."""
    result, _ = run_check(it, checkers=checkers)
    if not result.matched:
        raise SystemExit(f"the check failed: {result.failure}")


def measured(folder: Path, count: int, turns: int) -> list[Row]:
    """All rows."""
    checkers = {"http": HttpChecker()}
    with own(folder) as origin:
        context = ssl.create_default_context(cafile=str(origin.ca_file))
        tls = TlsSettings(ca_file=str(origin.ca_file))
        http = target(origin.small_url, WORD)
        named = target(origin.small_url.replace("127.0.0.1", "localhost"), WORD)
        https = target(origin.secure_url, WORD, tls)
        large = target(origin.large_url, LARGE_WORD)
        works = (
            ("floor HTTP, Python socket", raw_client(origin.http, "small", WORD), count),
            ("floor HTTP, requests prepared", requests_client(origin.small_url, WORD), count // 2),
            ("HTTP", lambda: checked(checkers, http), count),
            ("HTTP by name", lambda: checked(checkers, named), count),
            ("floor HTTPS, Python socket", raw_client(origin.https, "small", WORD, context), count // 4),
            ("HTTPS", lambda: checked(checkers, https), count // 4),
            ("floor 1 MB, Python socket", raw_client(origin.large, "large", LARGE_WORD), count // 10),
            ("1 MB", lambda: checked(checkers, large), count // 10),
        )
        found: dict[str, list[float]] = {name: [] for name, _, _ in works}
        for turn in range(turns + 1):  # the first warms up
            for name, work, times in works:
                each = max(times // turns, 10)
                before = own_cpu_s()
                for _ in range(each):
                    work()
                if turn:
                    found[name].append((own_cpu_s() - before) / each * 1e6)
    return [{"name": name, "us": statistics.median(us), "least_us": min(us)} for name, us in found.items()]


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--checks", type=int, default=4000 if FULL else 2000)
    parser.add_argument("--turns", type=int, default=8)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="checkvisor-bench-") as name:
        rows = measured(Path(name), given.checks, given.turns)
    for row in rows:
        print(f"{row['name']:<30} {row['us']:8.0f} us   (least {row['least_us']:.0f})")
    save(given.json, rows)


if __name__ == "__main__":
    main()
