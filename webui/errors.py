"""Answers for what goes wrong, the store included: RFC 9457 problem details for programs, a page for people."""

from __future__ import annotations

import json
from typing import Any

from flask import Flask, Response, render_template, request
from werkzeug.exceptions import HTTPException

from supervisor.store.connect import NoDatabaseError, ReadError, TooSlowError

RETRY_AFTER_S = 5
CODES = {
    400: "BAD_REQUEST",
    404: "NOT_FOUND",
    405: "METHOD_NOT_ALLOWED",
    422: "INVALID_PARAMETER",
    500: "INTERNAL_ERROR",
    503: "STORE_UNAVAILABLE",
}
TITLES = {
    400: "Bad request",
    404: "Not found",
    405: "Method not allowed",
    422: "Invalid parameter",
    500: "Internal error",
    503: "The store can't be read",
}


class UnknownTargetError(HTTPException):
    """No configured target has this id."""

    code = 404
    problem_code = "TARGET_NOT_FOUND"

    def __init__(self, key: str) -> None:
        super().__init__(f"there is no target with the id {key[:100]!r}")


def problem(
    status: int, detail: str, *, code: str | None = None, errors: Any = None, headers: dict[str, str] | None = None
) -> Response:
    """An `application/problem+json` answer."""
    body = {
        "type": "about:blank",
        "title": TITLES.get(status, "Error"),
        "status": status,
        "detail": detail,
        "instance": request.path,
        "code": code or CODES.get(status, f"HTTP_{status}"),
    }
    if errors:
        body["errors"] = errors
    text = json.dumps(body, ensure_ascii=True, separators=(",", ":"))
    answer = Response(text, status, content_type="application/problem+json")
    answer.headers["Cache-Control"] = "no-store"
    answer.headers.update(headers or {})
    return answer


def wants_json() -> bool:
    """Whether a program asks: by path, as the API's answers never depend on `Accept`."""
    return request.path.startswith(("/api/v1", "/metrics", "/healthz", "/readyz", "/badges"))


def install(app: Flask) -> None:
    """Register the handlers. flask-smorest's own is replaced (api.py): its body is not RFC 9457."""
    app.register_error_handler(HTTPException, handle_http)
    app.register_error_handler(ReadError, handle_store)
    app.register_error_handler(500, handle_http)


def handle_http(error: HTTPException) -> Response:
    """4xx and 500."""
    status = error.code or 500
    if error.response is not None:  # a redirect of the routing
        return error.response  # type: ignore[return-value]
    headers = {name: value for name, value in error.get_headers() if name == "Allow"}
    data = getattr(error, "data", None) or {}
    errors = _flat(data.get("messages"))
    detail = _detail(status, error, errors)
    if wants_json():
        return problem(status, detail, code=getattr(error, "problem_code", None), errors=errors, headers=headers)
    html = render_template("error.html", status=status, heading=TITLES.get(status, "Error"), detail=detail)
    return _page(html, status, headers)


def _detail(status: int, error: HTTPException, errors: list[dict[str, str]]) -> str:
    if errors:
        return "; ".join(f"{one['field']}: {one['message']}" for one in errors)
    if status == 404 and not isinstance(error, UnknownTargetError):
        return "there is nothing at this address"
    if status == 405:
        return "this is read-only: only GET and HEAD are answered"
    if status == 500:
        return "an error in Checkvisor; the log of the web process has it"
    return error.description or "the request can't be answered"


def _flat(messages: Any) -> list[dict[str, str]]:
    """webargs' {"query": {"limit": ["..."]}} as a list of {field, message}."""
    found: list[dict[str, str]] = []
    for fields in (messages or {}).values():
        for name, texts in fields.items() if isinstance(fields, dict) else [("", fields)]:
            found.extend({"field": str(name)[:100], "message": str(text)} for text in texts)
    return found


def handle_store(error: ReadError) -> Response:
    """No database yet, or one that can't be read. Never a page that looks as if all were well."""
    missing = isinstance(error, NoDatabaseError)
    headers = {"Retry-After": str(RETRY_AFTER_S)}
    if wants_json():
        code = "STORE_TOO_SLOW" if isinstance(error, TooSlowError) else "STORE_UNAVAILABLE"
        reason = "there is no data yet" if missing else "the database can't be read now"
        return problem(503, f"{reason}; the log of the web process says why", code=code, headers=headers)
    # the first look at a page whose supervisor has not written yet is no error of the web app
    status = 200 if missing and request.path == "/" else 503
    return _page(render_template("nodata.html", missing=missing, status=status), status, headers)


def _page(html: str, status: int, headers: dict[str, str]) -> Response:
    answer = Response(html, status, content_type="text/html; charset=utf-8")
    answer.headers["Cache-Control"] = "no-store"
    answer.headers.update(headers)
    return answer
