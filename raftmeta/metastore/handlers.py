"""The three kinds of handlers, and the registry of a metastore (KIP-273; Kafka's ZNodeChangeHandler and its like).

Registering is local and asks nobody. A change handler is armed by the next Exists or GetData of its path, a child
change handler by the next GetChildren. It is told one change, and the next one only after it was armed again.
The methods may be coroutine functions where the metastore is one of asyncio.
"""

from __future__ import annotations

from typing import Any, TypeVar

from raftmeta.errors import InvalidArgument
from raftmeta.metastore.paths import is_path

__all__ = ["Handlers", "StateChangeHandler", "ZNodeChangeHandler", "ZNodeChildChangeHandler"]


class ZNodeChangeHandler:
    """Told when the znode at `path` is created, deleted, or gets other data."""

    path: str

    def handle_creation(self) -> Any:
        """It exists now."""

    def handle_deletion(self) -> Any:
        """It is gone."""

    def handle_data_change(self) -> Any:
        """Its data was set."""


class ZNodeChildChangeHandler:
    """Told when a child of the znode at `path` is created or deleted."""

    path: str

    def handle_child_change(self) -> Any:
        """A child came or went."""


class StateChangeHandler:
    """Told of the end of a session and the begin of the next one. name: under which it is registered."""

    name: str

    def before_initializing_session(self) -> Any:
        """The session expired, and its ephemerals are gone or going; the new one begins when all handlers returned."""

    def after_initializing_session(self) -> Any:
        """A new session began."""

    def on_auth_failure(self) -> Any:
        """The store did not accept the credentials."""


H = TypeVar("H")


class Handlers:
    """The handlers of one metastore, by path or name: one of a kind, the last one registered."""

    def __init__(self) -> None:
        self.change: dict[str, ZNodeChangeHandler] = {}
        self.child_change: dict[str, ZNodeChildChangeHandler] = {}
        self.state: dict[str, StateChangeHandler] = {}

    def add_change(self, handler: ZNodeChangeHandler) -> None:
        self.change[_checked_path(handler)] = handler

    def add_child_change(self, handler: ZNodeChildChangeHandler) -> None:
        self.child_change[_checked_path(handler)] = handler

    def add_state(self, handler: StateChangeHandler) -> None:
        name = getattr(handler, "name", None)
        if not isinstance(name, str):
            raise InvalidArgument("handler: must have a name", field="handler")
        self.state[name] = handler

    def clear(self) -> None:
        """Forget all of them: nobody is called any more."""
        self.change.clear()
        self.child_change.clear()
        self.state.clear()


def _checked_path(handler: object) -> str:
    path = getattr(handler, "path", None)
    if not isinstance(path, str) or not is_path(path):
        raise InvalidArgument(f"handler: {path!r} is no path of a znode", field="handler")
    return path
