"""A TCP server on 127.0.0.1 that plays a script on each connection: for answers that no HTTP server gives.

A script is a list of steps: bytes are sent, a number is a pause in seconds, and a function does anything else with the
connection (`read_request`, `reset`, `half_close`, `wait`, `drip`). Afterwards the connection is closed.
"""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


@dataclass
class Connection:
    """One connection that was accepted."""

    sock: socket.socket
    over: threading.Event
    """Set when the test is over."""
    read: bytearray = field(default_factory=bytearray)
    """What was read of the request."""
    ended: threading.Event = field(default_factory=threading.Event)
    """Set when the other side has closed, as far as `read_to_the_end` has seen."""


Step = bytes | float | Callable[[Connection], None]
Script = Sequence[Step]


@dataclass
class OddServer:
    port: int
    connections: list[Connection] = field(default_factory=list)
    """Those accepted so far."""
    names: list[str | None] = field(default_factory=list)
    """Names that TLS clients asked for."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def requests(self) -> list[bytes]:
        return [bytes(connection.read) for connection in self.connections]


@contextlib.contextmanager
def odd_server(
    *script: Step, address: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> Iterator[OddServer]:
    """Play `script` on every connection; the steps begin with `read_request` where they have to."""
    over, threads = threading.Event(), []
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.create_server((address, port), family=family)
    server = OddServer(listener.getsockname()[1])
    if tls is not None:
        tls.sni_callback = lambda _sock, name, _context: server.names.append(name)

    def serve(sock: socket.socket) -> None:
        sock.settimeout(10)
        with contextlib.suppress(OSError), sock, tls.wrap_socket(sock, server_side=True) if tls else sock as own:
            connection = Connection(own, over)
            server.connections.append(connection)
            for step in script:
                if isinstance(step, bytes):
                    own.sendall(step)
                elif callable(step):
                    step(connection)
                else:
                    over.wait(step)

    def accept() -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            threads.append(threading.Thread(target=serve, args=(sock,), daemon=True))
            threads[-1].start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield server
    finally:
        over.set()
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for thread in (accepting, *threads):
            thread.join(5)


def read_request(connection: Connection) -> None:
    """Read a request as a whole, by its Content-Length."""
    while (head := connection.read.find(b"\r\n\r\n")) < 0:
        _read_more(connection)
    match = _LENGTH.search(connection.read[:head])
    while len(connection.read) < head + 4 + int(match[1] if match else 0):
        _read_more(connection)


def read_head(connection: Connection) -> None:
    """Read a little: the rest of the request stays where it is."""
    connection.read += connection.sock.recv(200)


def read_to_the_end(connection: Connection) -> None:
    with contextlib.suppress(ConnectionError):
        while part := connection.sock.recv(65_536):
            connection.read += part
    connection.ended.set()


def reset(connection: Connection) -> None:
    """Close with a reset, in the place of an end."""
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def half_close(connection: Connection) -> None:
    """Send nothing more, and go on reading."""
    connection.sock.shutdown(socket.SHUT_WR)


def wait(connection: Connection) -> None:
    """Do nothing until the test is over."""
    connection.over.wait(10)


def drip(text: bytes, every: float = 0.02) -> Callable[[Connection], None]:
    """Send a byte at a time, for as long as the other side takes it."""

    def step(connection: Connection) -> None:
        for byte in text:
            connection.sock.sendall(bytes([byte]))
            if connection.over.wait(every):
                return

    return step


def flood(part: bytes, times: int) -> Callable[[Connection], None]:
    """Send the same again and again, for as long as the other side takes it."""

    def step(connection: Connection) -> None:
        for _ in range(times):
            connection.sock.sendall(part)

    return step


def _read_more(connection: Connection) -> None:
    part = connection.sock.recv(65_536)
    if not part:
        raise ConnectionError("the request ended within itself")
    connection.read += part


@contextlib.contextmanager
def black_hole(address: str, port: int = 0) -> Iterator[int]:
    """A port of 127.0.0.0/8 whose packets are dropped: connecting to it never ends. Yields the port."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, port))
    listener.listen(0)
    with listener, contextlib.ExitStack() as waiting:
        # As many as wait to be accepted; whoever comes after them is not answered.
        for _ in range(3):
            sock = waiting.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            sock.setblocking(False)
            sock.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


def self_signed(path: Path, name: str) -> Path:
    """A certificate of `name`, and its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(secret + certificate.public_bytes(serialization.Encoding.PEM))
    return path


def server_tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context
