"""A real HTTP server on 127.0.0.1 for tests, whose answer each test writes itself."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


@dataclass(frozen=True)
class Received:
    method: str
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes


@dataclass
class Receiver:
    port: int
    requests: list[Received] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)
    """Set when the test is over: a handler that hangs waits for it."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?x=1"


class Exchange(BaseHTTPRequestHandler):
    """One request being answered."""

    receiver: Receiver

    def log_message(self, *args: object) -> None:
        pass

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def drip(self, text: bytes, every: float) -> None:
        """Send a byte at a time, until all is sent, the other side is gone or the test is over."""
        with contextlib.suppress(OSError):
            for byte in text:
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
                if self.receiver.stopped.wait(every):
                    return


@contextlib.contextmanager
def receiving(respond: Callable[[Exchange], None]) -> Iterator[Receiver]:
    """A server that remembers each request and lets `respond` answer it."""

    class Handler(Exchange):
        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            receiver.requests.append(Received(self.command, self.path, headers, body))
            respond(self)

    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        setattr(Handler, f"do_{method}", Handler.handle_any)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver = Receiver(port=server.server_address[1])
    Handler.receiver = receiver
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.stopped.set()
        server.shutdown()
        server.server_close()
        thread.join()
