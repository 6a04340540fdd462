"""connect(url): the four interfaces of KIP-30 from whatever stands behind a URL.

    with raftmeta.connect("raft://127.0.0.1:7700,127.0.0.1:7701") as backend:
        lead = backend.election("controller").nominate("broker-1")

A back end is found by the scheme of the URL among the entry points of the group "raftmeta.backends", so that one may be
installed from anywhere. It declares its promises (interfaces.Capabilities). `require` is checked before anything else
happens, and it has no fallback: an application that needs fencing never runs without.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from raftmeta.backends.url import BackendUrl
from raftmeta.errors import ConfigError
from raftmeta.interfaces import AioBackend, Backend, Capabilities

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["AioConnected", "BackendUrl", "Connected", "Plugin", "connect", "connect_aio", "schemes"]

GROUP = "raftmeta.backends"


class Connected(Backend, AbstractContextManager[Any], Protocol):
    """A back end that is closed at the end of its `with` block."""


class AioConnected(AioBackend, AbstractAsyncContextManager[Any], Protocol):
    """The same on asyncio."""


class Plugin(Protocol):
    """An entry point of "raftmeta.backends" names one of these; the entry point's name is the scheme."""

    def capabilities(self, url: BackendUrl) -> Capabilities:
        """The promises of the back end of this URL; connects to nobody."""

    def open(self, url: BackendUrl, *, timeout_s: float) -> Connected:
        """Connect, and return when it can be used. Raises ConfigError, NotExecuted within timeout_s seconds."""

    async def open_aio(self, url: BackendUrl, *, timeout_s: float) -> AioConnected:
        """The same on asyncio."""


def schemes() -> dict[str, EntryPoint]:
    """Every scheme that is installed, and where it comes from."""
    from importlib.metadata import entry_points  # a fifth of what it takes to import raftmeta, for whoever connects

    return {point.name: point for point in entry_points(group=GROUP)}


def connect(url: str, *, require: Capabilities | None = None, timeout_s: float = 10.0) -> Connected:
    """The back end behind a URL, ready to be used.

    require: what it must promise. timeout_s: seconds until it is connected.
    Raises ConfigError: no such scheme, a wrong URL, or a promise that this back end does not make; nothing was opened.
    Raises NotExecuted (ReadyTimeout and the like): it could not be reached in time.
    """
    plugin, parsed = _chosen(url, require)
    return plugin.open(parsed, timeout_s=timeout_s)


async def connect_aio(url: str, *, require: Capabilities | None = None, timeout_s: float = 10.0) -> AioConnected:
    """As connect, on asyncio."""
    plugin, parsed = _chosen(url, require)
    return await plugin.open_aio(parsed, timeout_s=timeout_s)


def _chosen(url: str, require: Capabilities | None) -> tuple[Plugin, BackendUrl]:
    parsed = BackendUrl.parse(url)
    installed = schemes()
    if parsed.scheme not in installed:
        raise ConfigError(
            f"url: nothing installed serves {parsed.scheme}://, only {', '.join(sorted(installed))}", field="url"
        )
    plugin: Plugin = installed[parsed.scheme].load()
    if require is not None:
        plugin.capabilities(parsed).require(require)
    return plugin, parsed
