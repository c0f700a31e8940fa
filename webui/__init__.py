"""The web app: a status page, a JSON API and metrics over the supervisor's database. It reads, nothing else.

    request -> security -> db (one short read transaction) -> view (pure) -> pages (HTML), api (JSON), metrics, badges

`create_app()` builds it from CHECKVISOR_* variables (supervisor/serving.py); `serve.serve()` runs it under gunicorn.
"""

from __future__ import annotations

from collections.abc import Callable

from flask import Flask

from supervisor.serving import Settings, from_environ
from webui import api, badges, db, errors, metrics, overview, pages, probes, render, security, target_page, warm
from webui.cache import Cache


def create_app(settings: Settings | None = None, *, now_ms: Callable[[], int] = db.wall_clock_ms) -> Flask:
    """The WSGI application; without `settings` they come from the environment. Opens no database before a request."""
    settings = settings or from_environ()
    app = Flask(__name__)
    app.url_map.merge_slashes = False  # its redirects would carry the Host of the request
    app.config.update(PROVIDE_AUTOMATIC_OPTIONS=False, SEND_FILE_MAX_AGE_DEFAULT=31_536_000, JSON_SORT_KEYS=False)
    database, cache = db.Database(settings.database, now_ms), Cache()
    model = overview.Overview(render.Rows(app))
    app.extensions["checkvisor"] = database
    app.extensions["warmer"] = warm.Warmer(app, database, model, settings.base_path)
    security.install(app, settings)
    errors.install(app)
    render.install(app)
    app.register_blueprint(pages.blueprint(app, database, cache, model))
    app.register_blueprint(target_page.blueprint(database))
    app.register_blueprint(badges.blueprint(database))
    app.register_blueprint(metrics.blueprint(database, cache))
    app.register_blueprint(probes.blueprint(database))
    app.extensions["openapi"] = api.install(app, database, cache, settings.base_path)
    return app
