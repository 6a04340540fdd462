"""A page to look at a cluster with: `pip install raftmeta[cli,web]`, then `raftmeta --url raft://... dashboard`.

    with raftmeta.dashboard.serve("raft://10.0.0.1:7700,10.0.0.2:7700", "127.0.0.1:8080"):
        ...

Members, plots, the history of leaders, keys, groups, elections and leases (docs/dashboard.md). The dashboard is a
client of the cluster. It shows a visitor only data that the visitor's user may read, and it changes nothing unless it
is told that it may.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import uvicorn

from raftmeta.common.listening import check_reach, listening
from raftmeta.config import Address
from raftmeta.dashboard.app import make_app
from raftmeta.dashboard.place import Place, Proof
from raftmeta.errors import ConfigError
from raftmeta.security.settings import Tls

__all__ = ["DashboardServer", "serve"]

END_S = 5.0
ENDING_S = 2


class DashboardServer:
    """An HTTP server on a thread of its own, made by serve()."""

    def __init__(
        self,
        place: Place,
        own: Proof,
        listener: socket.socket,
        *,
        files: dict[str, str],
        allows_changes: bool,
        hosts: Sequence[str],
    ) -> None:
        app = make_app(
            place,
            own=own,
            allows_changes=allows_changes,
            is_secure=bool(files),
            hosts=hosts,
            is_ending=lambda: self._server.should_exit,
        )
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                server_header=False,
                ws="none",
                proxy_headers=False,
                lifespan="on",
                timeout_graceful_shutdown=ENDING_S,
                **files,  # type: ignore[arg-type]
            )
        )
        self._listener = listener
        self.address: str = "{}:{}".format(*listener.getsockname()[:2])
        self.url = f"{'https' if files else 'http'}://{self.address}/"
        self._thread = threading.Thread(target=self._run, name="raftmeta-dashboard", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._server.run(sockets=[self._listener])

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def close(self) -> None:
        """End streams and sessions, and stop listening. Idempotent."""
        self._server.should_exit = True
        self._thread.join(END_S)
        self._listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()


def serve(
    url: str,
    address: str,
    *,
    cluster: str = "default",
    tls: Tls | None = None,
    user: str | None = None,
    password: str | None = None,
    token: str | None = None,
    certificate: str | Path | None = None,
    key: str | Path | None = None,
    hosts: Sequence[str] = (),
    allow_changes: bool = False,
    insecure: bool = False,
) -> DashboardServer:
    """Show the cluster of a URL of raftmeta.Client at http://address, until close().

    tls: of the connections to the cluster. user, password, token: as whom it looks while nobody does, for the history
    of leaders; a visitor proves a user or token of its own. certificate, key: files; the page then is at https only.
    hosts: names under which browsers ask for the page, beside addresses and localhost. allow_changes: the page offers
    changes of members. insecure: allow an address that other machines reach without https.
    Raises ConfigError: no such address or URL, or an address that is not loopback without certificate or insecure;
    AddressInUse.
    """
    where = Address.parse(address, "dashboard")
    if (certificate is None) != (key is None):
        raise ConfigError("dashboard: give certificate and key, or none of them", field="dashboard")
    check_reach(where, "dashboard", has_certificate=certificate is not None, insecure=insecure)
    place, own = Place(url, cluster, tls), Proof(user, password, token)
    place.client(own)  # the URL and the proof are checked here, and nothing connects
    files = {} if certificate is None else {"ssl_certfile": str(certificate), "ssl_keyfile": str(key)}
    return DashboardServer(
        place, own, listening(where, "dashboard"), files=files, allows_changes=allow_changes, hosts=hosts
    )
