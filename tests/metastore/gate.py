"""A proxy on loopback that can be cut: connections end, and new ones are refused until it is restored."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self

from tests.processes.waiting import free_ports


class Gate:
    """Forwards connections to one address. address: where clients connect to."""

    def __init__(self, target: str) -> None:
        host, _, port = target.partition(":")
        self._target = (host, int(port))
        self._port = free_ports(1)[0]
        self.address = f"127.0.0.1:{self._port}"
        self._lock = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._listener: socket.socket | None = None
        self.restore()

    def restore(self) -> None:
        """Let connections through again. Ignored where they are."""
        with self._lock:
            if self._listener is not None:
                return
        listener = socket.create_server(("127.0.0.1", self._port))
        with self._lock:
            self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def cut(self) -> None:
        """End all connections, and let no new one in."""
        with self._lock:
            listener, self._listener = self._listener, None
            pairs, self._pairs = self._pairs, []
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
            listener.close()
        for pair in pairs:
            _end(*pair)

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                try:
                    server = socket.create_connection(self._target)
                except OSError:
                    client.close()
                    continue
                with self._lock:
                    is_open = self._listener is listener
                    if is_open:
                        self._pairs.append((client, server))
                if not is_open:
                    _end(client, server)
                    continue
                for source, target in ((client, server), (server, client)):
                    threading.Thread(target=_pump, args=(source, target), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.cut()


def _pump(source: socket.socket, target: socket.socket) -> None:
    """Copy until one end closes; then both are closed."""
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    _end(source, target)


def _end(*sockets: socket.socket) -> None:
    for each in sockets:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()
