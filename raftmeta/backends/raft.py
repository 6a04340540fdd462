"""raft://host:port,host:port and raft+unix:///folder: a client of a cluster that runs in other processes.

raft://host:port/app and the option prefix=app/ give the keys that begin with app/ alone (recipes/views).
Options: cluster, its name; owner, the name under which this client holds its places: a later client of that name takes
them over at once, as after a crash; tls_ca, tls_cert, tls_key and tls_crl, the files of the setting tls. Closing the
back end closes the client.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

from raftmeta import aio
from raftmeta.backends.url import BackendUrl, prefix_of
from raftmeta.client.endpoints import TLS_OPTIONS
from raftmeta.clients import CAPABILITIES, Client
from raftmeta.errors import ConfigError
from raftmeta.interfaces import Capabilities
from raftmeta.recipes.views import View

__all__ = ["PLUGIN", "arguments"]


def _has_folder(url: BackendUrl) -> bool:
    return url.scheme == "raft+unix"


def arguments(url: BackendUrl) -> tuple[str, dict[str, Any]]:
    """The URL and the other arguments of Client."""
    url.only({"cluster", "owner", "prefix", *TLS_OPTIONS})
    if url.scheme == "raft" and not url.addresses:
        raise ConfigError("url: raft:// needs where nodes listen for clients: raft://host:port,host:port", field="url")
    place = ",".join(url.addresses) + (quote(url.path) if _has_folder(url) else "")
    query = urlencode({name: text for name, text in url.options.items() if name in TLS_OPTIONS})
    options = {name: text for name in ("cluster", "owner") if (text := url.options.get(name))}
    return f"{url.scheme}://{place}{'?' * bool(query)}{query}", options


class _Raft:
    takes_owners = True

    def capabilities(self, url: BackendUrl) -> Capabilities:
        return CAPABILITIES

    def open(self, url: BackendUrl, *, timeout_s: float) -> Client | View:
        place, options = arguments(url)
        prefix = prefix_of(url, has_path=_has_folder(url))
        client = Client(place, **options)
        try:
            client.ready(timeout_s)
        except BaseException:
            client.close()
            raise
        return client if prefix is None else View(client, prefix, owns_store=True)

    async def open_aio(self, url: BackendUrl, *, timeout_s: float) -> aio.Client | aio.View:
        place, options = arguments(url)
        prefix = prefix_of(url, has_path=_has_folder(url))
        client = aio.Client(place, **options)
        try:
            await client.ready(timeout_s)
        except BaseException:
            await client.close()
            raise
        return client if prefix is None else aio.View(client, prefix, owns_store=True)


PLUGIN = _Raft()
