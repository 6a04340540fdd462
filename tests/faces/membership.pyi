"""A Membership as a Python object, for tests and tools; statuses are numbers of raftmeta/status.pxd."""

from __future__ import annotations

from collections.abc import Sequence

_MemberTuple = tuple[int, int, bytes, bytes]
"""id, roles (MemberRole bits), name, address"""

class MembershipHandle:
    def __init__(self, members: Sequence[_MemberTuple] = (), *, is_joint: bool = False) -> None:
        """Hold members as given, valid or not; raises ValueError when they do not fit the struct."""
    @property
    def is_joint(self) -> bool: ...
    @property
    def members(self) -> list[_MemberTuple]: ...
    def __eq__(self, other: object) -> bool: ...
    def check(self) -> int:
        """Return the status of membership_check."""
    def encode(self) -> tuple[int, bytes]:
        """Return (status, bytes); the bytes are empty unless the status is OK."""
    @staticmethod
    def decode(encoded: bytes | bytearray | memoryview) -> tuple[int, MembershipHandle | None]:
        """Return (status, membership or None) of exactly these bytes."""
    def position(self, member_id: int) -> int:
        """Return the position of a member, -1 when there is none."""
    def voters_incoming(self) -> int:
        """Return the mask of positions that vote in the new electorate."""
    def voters_outgoing(self) -> int:
        """Return the mask of positions that vote in the old electorate; 0 at rest."""
    def learners(self) -> int:
        """Return the mask of positions that only receive."""
    def enter_joint(self, target: MembershipHandle) -> tuple[int, MembershipHandle]:
        """Return (status, joint membership between this one and target)."""
    def leave_joint(self) -> tuple[int, MembershipHandle]:
        """Return (status, what this joint membership becomes)."""
    def swap(self, successor: int) -> tuple[int, MembershipHandle]:
        """Return (status, target in which the learner successor replaces the voter of its name)."""
