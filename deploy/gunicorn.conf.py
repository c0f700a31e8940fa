"""gunicorn's settings for the web app: `gunicorn -c deploy/gunicorn.conf.py 'webui:create_app()'`.

CHECKVISOR_BIND is HOST:PORT or unix:/run/checkvisor-web/web.sock; CHECKVISOR_DATABASE, _BASE_PATH, _TRUSTED_HOSTS and
_FRAME_ANCESTORS are read by the application. CHECKVISOR_WEB_WORKERS and _THREADS size it.
"""

import os

from webui import serve

globals().update(
    serve.options(
        bind=os.environ.get("CHECKVISOR_BIND") or serve.DEFAULT_BIND,
        workers=int(os.environ.get("CHECKVISOR_WEB_WORKERS") or serve.WORKERS),
        threads=int(os.environ.get("CHECKVISOR_WEB_THREADS") or serve.THREADS),
    )
)
wsgi_app = serve.APP
del serve, os
