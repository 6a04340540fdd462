"""embedded:///folder?name=a&peers=a=host:port,b=host:port: a node of this cluster, inside this process.

Options: name, peers (required); listen, advertise, client_listen, zookeeper_listen, cluster; prefix, of all keys; and
every setting of raftmeta.Config by its name, `election_timeout_s=0.5`. Closing the back end closes the node.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from raftmeta import aio
from raftmeta.backends.url import BackendUrl, prefix_of
from raftmeta.config import Config
from raftmeta.errors import ConfigError
from raftmeta.interfaces import Capabilities
from raftmeta.node import CAPABILITIES, Node
from raftmeta.recipes.views import View

__all__ = ["PLUGIN", "arguments"]

_PLACE = ("advertise", "client_listen", "cluster", "listen", "zookeeper_listen")
_TRUTHS = {"true": True, "1": True, "false": False, "0": False}


def _truth(text: str) -> bool:
    if text not in _TRUTHS:
        raise ValueError(text)
    return _TRUTHS[text]


def arguments(url: BackendUrl) -> dict[str, Any]:
    """The arguments of Node."""
    settings = {setting.name: setting for setting in fields(Config)}
    url.only({"name", "peers", "prefix", *_PLACE, *settings})
    if not url.path:
        raise ConfigError("url: embedded:// needs the node's folder: embedded:///folder?...", field="url")
    given: dict[str, Any] = {}
    for name in url.options.keys() & settings.keys():
        default = settings[name].default
        parse: Any = _truth if isinstance(default, bool) else type(default)
        given[name] = url.option(name, parse, default)
    return {
        "name": url.required("name"),
        "peers": _peers(url.required("peers")),
        "data_dir": url.path,
        "config": Config(**given),
        **{name: url.options[name] for name in _PLACE if name in url.options},
    }


def _peers(text: str) -> dict[str, str]:
    peers = dict(pair.partition("=")[::2] for pair in text.split(","))
    if len(peers) != text.count(",") + 1 or not all(peers.values()):
        raise ConfigError(f"url: peers: must be name=host:port,..., each name once, not {text!r}", field="peers")
    return peers


class _Embedded:
    def capabilities(self, url: BackendUrl) -> Capabilities:
        return CAPABILITIES

    def open(self, url: BackendUrl, *, timeout_s: float) -> Node | View:
        prefix = prefix_of(url, has_path=True)
        node = Node(**arguments(url)).start()
        try:
            node.ready(timeout_s)
        except BaseException:
            node.close()
            raise
        return node if prefix is None else View(node, prefix, owns_store=True)

    async def open_aio(self, url: BackendUrl, *, timeout_s: float) -> aio.Node | aio.View:
        prefix = prefix_of(url, has_path=True)
        node = await aio.Node(**arguments(url)).start()
        try:
            await node.ready(timeout_s)
        except BaseException:
            await node.close()
            raise
        return node if prefix is None else aio.View(node, prefix, owns_store=True)


PLUGIN = _Embedded()
