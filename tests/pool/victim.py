"""A supervisor to be killed: runs commands that ignore TERM, prints its workers' pids once all run."""

from __future__ import annotations

import os
import signal
import sys
from multiprocessing import forkserver

from tests.pool.driver import driven, shell


def main() -> None:
    with driven(4) as driver:
        driver.add(*(shell(f"t{i}", "trap '' TERM; sleep 62.06 & while :; do sleep 62.06; done") for i in range(3)))
        driver.turn_until(lambda: sum(stat.target_id is not None for stat in driver.pool.stats().workers) == 3)
        driver.turn_until(lambda: len(driver.pool.stats().workers) == 4)
        for _ in range(10):
            driver.turn()
        if "without forkserver" in sys.argv:
            os.kill(forkserver._forkserver._forkserver_pid, signal.SIGKILL)  # type: ignore[attr-defined]
            for _ in range(10):
                driver.turn()
        print(*(stat.pid for stat in driver.pool.stats().workers), flush=True)
        while True:
            driver.turn()


if __name__ == "__main__":
    main()
