"""connect(url): the four interfaces of KIP-30 from whatever stands behind a URL.

    with raftmeta.connect("raft://127.0.0.1:7700,127.0.0.1:7701") as backend:
        lead = backend.election("controller").nominate("broker-1")

A back end is found by the scheme of the URL: among those that this process registered (register), then among the entry
points of the group "raftmeta.backends", so that one may be installed from anywhere. It declares its promises
(interfaces.Capabilities). `require` is checked before anything else happens, and it has no fallback: an application
that needs fencing never runs without.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AbstractContextManager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from raftmeta.backends.url import BackendUrl
from raftmeta.errors import ConfigError
from raftmeta.interfaces import AioBackend, Backend, Capabilities

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "AioConnected",
    "BackendUrl",
    "Connected",
    "Plugin",
    "connect",
    "connect_aio",
    "plugin_of",
    "register",
    "schemes",
    "unregister",
]

GROUP = "raftmeta.backends"

_registered: dict[str, Plugin | str] = {}  # of this process, by scheme; it is the program that decides


class Connected(Backend, AbstractContextManager[Any], Protocol):
    """A back end that is closed at the end of its `with` block."""


class AioConnected(AioBackend, AbstractAsyncContextManager[Any], Protocol):
    """The same on asyncio."""


class Plugin(Protocol):
    """An entry point of "raftmeta.backends" names one of these; the entry point's name is the scheme.

    It may have a true attribute `takes_owners`: any number of processes may open one URL, and its option `owner` names
    whose life each of them is. The conformance suite then needs no other URL for the processes that it kills.
    """

    def capabilities(self, url: BackendUrl) -> Capabilities:
        """The promises of the back end of this URL; connects to nobody."""

    def open(self, url: BackendUrl, *, timeout_s: float) -> Connected:
        """Connect, and return when it can be used. Raises ConfigError, NotExecuted within timeout_s seconds."""

    async def open_aio(self, url: BackendUrl, *, timeout_s: float) -> AioConnected:
        """The same on asyncio."""


def register(scheme: str, plugin: Plugin | str) -> None:
    """Let this process connect to URLs of a scheme by plugin, whatever is installed for it.

    plugin: the object, or where it is, "package.module:object", which is imported when it is first needed.
    Raises ConfigError for text that names no object.
    """
    if isinstance(plugin, str):
        module, _, name = plugin.partition(":")
        if not module or not name:
            raise ConfigError(f'plugin: must look like "package.module:object", not {plugin!r}', field="plugin")
    _registered[scheme] = plugin


def unregister(scheme: str) -> None:
    """Forget what register was told of a scheme; one that was not registered is ignored."""
    _registered.pop(scheme, None)


def schemes() -> dict[str, EntryPoint]:
    """Every scheme that is installed, and where it comes from."""
    from importlib.metadata import entry_points  # a fifth of what it takes to import raftmeta, for whoever connects

    return {point.name: point for point in entry_points(group=GROUP)}


def plugin_of(scheme: str) -> Plugin:
    """The plug-in for URLs of a scheme. Raises ConfigError: there is none, or it cannot be imported."""
    plugin = _registered.get(scheme)
    if isinstance(plugin, str):
        plugin = _registered[scheme] = _imported(plugin)
    if plugin is not None:
        return plugin
    installed = schemes()
    if scheme not in installed:
        known = ", ".join(sorted(installed.keys() | _registered.keys()))
        raise ConfigError(f"url: nothing installed serves {scheme}://, only {known}", field="url")
    try:
        found: Plugin = installed[scheme].load()
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"url: {scheme}:// needs the package {error.name}, which is not installed", field="url"
        ) from None
    return found


def _imported(place: str) -> Plugin:
    module, _, name = place.partition(":")
    try:
        found: Plugin = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"plugin: {place!r} cannot be imported: {error}", field="plugin") from None
    return found


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
    plugin = plugin_of(parsed.scheme)
    if require is not None:
        plugin.capabilities(parsed).require(require)
    return plugin, parsed
