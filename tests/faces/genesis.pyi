"""One Genesis as a Python object, for tests and tools; statuses and states are numbers of the .pxd files."""

from __future__ import annotations

from collections.abc import Sequence

_Member = tuple[int, int, bytes, bytes]
"""id, roles, name, address"""
_Record = tuple[int, int, int, Sequence[_Member]]
"""state, cluster id low and high, founding membership"""
_Message = tuple[int, int, int, int, int, Sequence[_Member]]
"""type, cluster id low and high, source, target, membership"""

class GenesisHandle:
    def __init__(
        self,
        member_id: int,
        self_name: bytes,
        peers: Sequence[tuple[bytes, bytes]],
        record: _Record,
        *,
        random_low: int,
        random_high: int,
    ) -> None:
        """Start a node of these names from what its disk holds; peers are (name, address), self among them."""
    def hello(self, name: bytes, member_id: int, state: int, cluster_low: int, cluster_high: int) -> int:
        """Take in a peer's HELLO and return its status."""
    def step(self, message: _Message) -> int:
        """Take in a message and return its status."""
    def tick(self) -> int:
        """Repeat what was not answered."""
    def persisted(self) -> int:
        """Say that `record` is durable."""
    def joined(self) -> int:
        """Say that the cluster's log names this node."""
    def take_messages(self) -> list[tuple[int, int, int, int, int, tuple[_Member, ...]]]:
        """Return and forget the messages to send now."""
    @property
    def record(self) -> tuple[int, int, int, tuple[_Member, ...]]: ...
    @property
    def claim(self) -> tuple[int, int, int]:
        """State and cluster id that a HELLO may say: what is durable."""
    @property
    def must_persist(self) -> bool: ...
    @property
    def refusal(self) -> tuple[int, bytes]:
        """Why nothing can be founded here, and whose name says so; (0, b"") when nothing stands against it."""
