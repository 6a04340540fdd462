"""Nodes as programs see them: an id, and for TCP an address."""

from __future__ import annotations

from typing import Any

from raftmeta.compat.pysyncobj.dns_resolver import globalDnsResolver

__all__ = ["Node", "TCPNode"]


class Node:
    """Any node. Two with the same id are the same node. kwargs: kept as attributes."""

    def __init__(self, id: Any, **kwargs: Any) -> None:
        self._id = id
        for name, value in kwargs.items():
            setattr(self, name, value)

    @property
    def id(self) -> Any:
        return self._id

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "id":
            raise AttributeError("Node id is not mutable")
        super().__setattr__(name, value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __str__(self) -> str:
        return str(self.id)

    def __repr__(self) -> str:
        facts = "".join(f", {name} = {value!r}" for name, value in vars(self).items() if not name.startswith("_"))
        return f"{type(self).__name__}({self.id!r}{facts})"

    def _destroy(self) -> None:
        """For programs that destroy nodes; a node holds nothing."""


class TCPNode(Node):
    """A node at "host:port", which is its id."""

    def __init__(self, address: str, **kwargs: Any) -> None:
        host, _, port = address.rpartition(":")
        self._host, self._port = host, int(port)
        super().__init__(address, **kwargs)

    @property
    def address(self) -> str:
        return str(self.id)

    @property
    def host(self) -> str:
        return self._host

    @property
    def port(self) -> int:
        return self._port

    @property
    def ip(self) -> str | None:
        return globalDnsResolver().resolve(self._host)
