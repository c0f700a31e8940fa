"""HTTP checks (design section 4.1): settings -> plan -> hops -> observation -> judge -> outcome.

settings   what a user can say
plan       a target made ready once per worker: its request, its route, what may go to other origins
redirect   where an answer sends us, and what may go there
cookies    the jar of one check
decode     a body out of its content codings, under the cap
observe    what `judge` may look at
failures   every fault as a CheckFailure; the words for an expired deadline
checker    one run, from target to outcome
"""

from supervisor.checkers.http.checker import HttpChecker

__all__ = ["HttpChecker"]
