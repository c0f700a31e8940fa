"""One connection layer for HTTP checks and webhooks: resolve, check the address, connect, TLS, send, read; all timed.

    resolve   names to addresses, in a thread, so that a look-up ends by the deadline
    policy    which addresses may be dialled (webhooks)
    dial      all addresses within one connect budget
    tls       contexts, handshake, what went wrong in words, the leaf certificate
    budget    what is left for one blocking call
    wire      HTTP/1.1 answers: heads, framing, bodies
    request   a `requests.PreparedRequest` with its bytes for the wire, made once
    adapter   all of it as an adapter under `requests`; `Route` says which way to go

Every socket operation gets what is left of the `Deadline`; when nothing is left, `DeadlineExpired` is raised. That
holds in any thread. In a worker's main thread SIGALRM raises the same exception wherever the code stands. Everything
else that goes wrong is a `NetFailure` with its place and one sentence, which never holds a path or a query of a URL.
"""

from supervisor.net.adapter import Adapter, Answer, Exchange, Route, Watch
from supervisor.net.failure import Blocked, CertificateFailure, NetFailure, OverCap, Place
from supervisor.net.policy import AddressPolicy
from supervisor.net.request import Origin, Prepared, Proxy

__all__ = [
    "Adapter",
    "AddressPolicy",
    "Answer",
    "Blocked",
    "CertificateFailure",
    "Exchange",
    "NetFailure",
    "Origin",
    "OverCap",
    "Place",
    "Prepared",
    "Proxy",
    "Route",
    "Watch",
]
