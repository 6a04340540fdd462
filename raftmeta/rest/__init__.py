"""raftmeta over HTTP: `pip install raftmeta[web]`, then `raftmeta serve --http 127.0.0.1:7800 ...`.

    with raftmeta.rest.serve("raft+unix:///folder/of/the/node", "127.0.0.1:7800"):
        ...

Sessions, groups, elections, keys, transactions and changes as resources (docs/rest.md). The server is a client of its
node, and has a client for each principal. So the node's own rules decide who may do what. It keeps nothing itself: any
node of the cluster answers any request, and a client goes on at another one.
"""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

import uvicorn

from raftmeta.common.listening import check_reach, listening
from raftmeta.config import Address
from raftmeta.errors import ConfigError
from raftmeta.rest.app import make_app
from raftmeta.rest.routes import document

__all__ = ["RestServer", "document", "make_app", "serve"]

END_S = 5.0


class RestServer:
    """An HTTP server on a thread of its own, made by serve(). Closing it does not close the node."""

    def __init__(self, url: str, listener: socket.socket, config: dict[str, object], cluster: str) -> None:
        app = make_app(url, cluster=cluster, is_ending=lambda: self._server.should_exit)
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                server_header=False,
                ws="none",
                lifespan="on",
                timeout_graceful_shutdown=2,
                **config,  # type: ignore[arg-type]
            )
        )
        self._listener = listener
        self.address: str = "{}:{}".format(*listener.getsockname()[:2])
        self._thread = threading.Thread(target=self._run, name="raftmeta-rest", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._server.run(sockets=[self._listener])

    def close(self) -> None:
        """Stop listening, end streams, and answer the requests under way. Idempotent."""
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
    certificate: str | Path | None = None,
    key: str | Path | None = None,
    authorities: str | Path | None = None,
    insecure: bool = False,
) -> RestServer:
    """Serve the cluster of a URL of raftmeta.Client at http://address, until close().

    certificate, key: files; the server then speaks https only. authorities: it serves only clients whose certificate
    one of them signed. insecure: allow an address that other machines reach without https.
    Raises ConfigError: no such address, or one that is not loopback without certificate or insecure; AddressInUse.
    """
    where = Address.parse(address, "http")
    if (certificate is None) != (key is None) or (authorities is not None and certificate is None):
        raise ConfigError("http: certificate and key: give both or none, and both with authorities", field="http")
    check_reach(where, "http", has_certificate=certificate is not None, insecure=insecure)
    config: dict[str, object] = {}
    if certificate is not None:
        config = {"ssl_certfile": str(certificate), "ssl_keyfile": str(key)}
    if authorities is not None:
        import ssl  # a fifth of what it takes to import this module, for whoever has authorities

        config |= {"ssl_ca_certs": str(authorities), "ssl_cert_reqs": ssl.CERT_REQUIRED}
    return RestServer(url, listening(where, "http"), config, cluster)
