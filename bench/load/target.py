"""The receiver that the jobs call: it decides by path and attempt, and remembers every call."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from bench.load.story import answer_of


@dataclass(frozen=True, slots=True)
class Called:
    at: float
    """Epoch seconds."""
    job_id: str
    attempt: int
    status: int


class Target:
    """What arrived; lists of one thread-safe append each."""

    def __init__(self) -> None:
        self.calls: list[Called] = []
        self.url = ""

    @contextlib.contextmanager
    def listening(self) -> Iterator[Target]:
        calls = self.calls

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 10
            # Head and body in one packet: two would wait for each other (Nagle and delayed ACK, 40 ms).
            wbufsize = -1

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                attempt = int(self.headers.get("Gnomon-Attempt", 0))
                status = answer_of(self.path, attempt)
                calls.append(Called(time.time(), self.headers.get("Gnomon-Job-Id", ""), attempt, status))
                body = b"{}"
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Quiet: what arrives is remembered."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 1024

        server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
