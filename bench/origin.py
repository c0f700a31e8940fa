"""The server that is checked: nginx from Debian if it is there, else one of our own. It must be no bottleneck."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import trustme

from bench.proc import die_with_parent

SMALL = b"ready " * 16 + b"done"
LARGE = json.dumps({"items": [{"id": n, "state": "up"} for n in range(36_000)], "status": "ok"}).encode()
WORD, LARGE_WORD = "done", '"status": "ok"'  # at the end of each body

_NGINX = """
worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log; daemon off;
events {{ worker_connections 8192; }}
http {{
  access_log off; keepalive_timeout 0; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s; root {folder}/www;
  server {{ listen 127.0.0.1:{http} backlog=4096; }}
  ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem;
  server {{ listen 127.0.0.1:{https} ssl backlog=4096; }}
}}
"""
_HEAD = (
    b"HTTP/1.1 200 OK\r\nServer: bench\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\nContent-Type: text/plain\r\n"
    b"Content-Length: %d\r\nConnection: close\r\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\n"
    b'ETag: "1-2-3"\r\nAccept-Ranges: bytes\r\n\r\n'
)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the bodies are, and the certificate authority that its certificate is from."""

    name: str
    http: int  # port of /small
    large: int  # port of /large
    https: int
    ca_file: Path

    @property
    def small_url(self) -> str:
        return f"http://127.0.0.1:{self.http}/small"

    @property
    def secure_url(self) -> str:
        return f"https://127.0.0.1:{self.https}/small"

    @property
    def large_url(self) -> str:
        return f"http://127.0.0.1:{self.large}/large"


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def wait_for(port: int) -> None:
    """Until somebody listens."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise SystemExit(f"nobody listens on port {port}")


@contextlib.contextmanager
def origin(folder: Path) -> Iterator[Origin]:
    """Serve until the block ends. Certificates and nginx's files go into `folder`."""
    nginx = shutil.which("nginx", path="/usr/sbin:" + os.environ.get("PATH", ""))
    with _nginx(folder, nginx) if nginx else own(folder) as serving:
        yield serving


def _certificates(folder: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1", "localhost")
    certificate.cert_chain_pems[0].write_to_path(str(folder / "cert.pem"))
    certificate.private_key_pem.write_to_path(str(folder / "key.pem"))
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))


@contextlib.contextmanager
def _nginx(folder: Path, program: str) -> Iterator[Origin]:
    _certificates(folder)
    (folder / "www").mkdir()
    (folder / "www" / "small").write_bytes(SMALL)
    (folder / "www" / "large").write_bytes(LARGE)
    folder.chmod(0o755)  # its worker runs as another user
    http, https = free_port(), free_port()
    (folder / "nginx.conf").write_text(_NGINX.format(folder=folder, http=http, https=https))
    command = [program, "-c", str(folder / "nginx.conf"), "-p", str(folder)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, preexec_fn=die_with_parent)
    try:
        wait_for(http)
        yield Origin("nginx", http, http, https, folder / "ca.pem")
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def own(folder: Path) -> Iterator[Origin]:
    """Our own server, one process for each body; also asked for where only the client's cost is measured."""
    _certificates(folder)
    with contextlib.ExitStack() as stack:
        small, large, secure = (stack.enter_context(_process(folder, kind)) for kind in ("small", "large", "secure"))
        yield Origin("our own server", small, large, secure, folder / "ca.pem")


@contextlib.contextmanager
def _process(folder: Path, kind: str) -> Iterator[int]:
    """`serve` in a process of its own; gives its port."""
    command = [sys.executable, "-m", "bench.origin", str(folder), kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def serve(folder: Path, kind: str) -> None:
    """One answer for every connection, for ever: the small body, the large one, or the small one over TLS."""
    die_with_parent()
    body = LARGE if kind == "large" else SMALL
    answer = _HEAD % len(body) + body
    context = None
    if kind == "secure":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            sock, _ = listener.accept()
            with contextlib.suppress(OSError):  # a client that went away
                if context is not None:
                    sock = context.wrap_socket(sock, server_side=True)
                sock.recv(65536)
                sock.sendall(answer)
            sock.close()


if __name__ == "__main__":
    serve(Path(sys.argv[1]), sys.argv[2])
