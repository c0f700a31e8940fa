"""What holds for every request and answer: methods, hosts, base path, headers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from flask import Flask, Response, request
from werkzeug.exceptions import BadRequest, MethodNotAllowed
from werkzeug.sansio.utils import host_is_trusted

from supervisor.serving import Settings

METHODS = ("GET", "HEAD")
_PROBED = ("/healthz", "/readyz", "/metrics")
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_PORT = re.compile(r":[0-9]+\Z")
_PERMISSIONS = "accelerometer=(), camera=(), geolocation=(), gyroscope=(), microphone=(), payment=(), usb=()"

Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def policy(frame_ancestors: str) -> str:
    """The content security policy: own files only, no inline script or style, Trusted Types."""
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        f"form-action 'self'; base-uri 'none'; frame-ancestors {frame_ancestors}; "
        "require-trusted-types-for 'script'; trusted-types checkvisor"
    )


class BasePath:
    """WSGI middleware: serve under a configured path. No header of a request has a say in it.

    A proxy may keep the path or strip it: what does not begin with the path is taken as stripped.
    """

    def __init__(self, app: Wsgi, base_path: str) -> None:
        self._app = app
        self._base = base_path

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        environ["SCRIPT_NAME"] = self._base
        if self._base and (path == self._base or path.startswith(self._base + "/")):
            environ["PATH_INFO"] = path[len(self._base) :] or "/"
        return self._app(environ, start_response)


def install(app: Flask, settings: Settings) -> None:
    """Set the checks before and the headers after each request."""
    app.wsgi_app = BasePath(app.wsgi_app, settings.base_path)  # type: ignore[method-assign]
    headers = {
        "Content-Security-Policy": policy(settings.frame_ancestors),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Permissions-Policy": _PERMISSIONS,
        "X-Robots-Tag": "noindex, nofollow",
    }
    if settings.frame_ancestors == "'none'":
        headers["X-Frame-Options"] = "DENY"

    @app.before_request
    def _check() -> None:
        if request.method not in METHODS:
            raise MethodNotAllowed(valid_methods=METHODS)
        if settings.trusted_hosts and not _trusted(settings.trusted_hosts):
            raise BadRequest("this Host is not one of the trusted hosts (--trusted-hosts)")

    @app.after_request
    def _finish(response: Response) -> Response:
        for name, value in headers.items():
            response.headers.setdefault(name, value)
        return response


def _trusted(hosts: tuple[str, ...]) -> bool:
    host = request.environ.get("HTTP_HOST", "")
    if request.path in _PROBED and _PORT.sub("", host) in _LOOPBACK:
        return True
    return host_is_trusted(host, hosts)
