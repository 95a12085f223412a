"""Anything that answers httpx's requests, as a real HTTP server on 127.0.0.1."""

from __future__ import annotations

import contextlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import httpx

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Answer = Callable[[httpx.Request], httpx.Response]


@contextlib.contextmanager
def served(answer: Answer) -> Iterator[str]:
    """The address of the server. An answer that raises closes the connection without a response."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(answer))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(answer: Answer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 5
        wbufsize = -1  # head and body in one packet

        def handle_one_request(self) -> None:
            try:
                super().handle_one_request()
            except ConnectionError:
                self.close_connection = True

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            url = f"http://{self.headers['Host']}{self.path}"
            request = httpx.Request(self.command, url, headers=list(self.headers.items()), content=content)
            try:
                response = answer(request)
            except httpx.TransportError:
                self.close_connection = True
                return
            self.send_response(response.status_code)
            for name, value in response.headers.items():
                if name not in ("content-length", "transfer-encoding"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(response.content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(response.content)

        def log_message(self, *_: object) -> None:
            pass

    for method in ("GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY"):
        setattr(Handler, f"do_{method}", Handler.do_POST)
    return Handler
