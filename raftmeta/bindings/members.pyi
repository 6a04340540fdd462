"""Memberships from Python: rows (raftmeta/members/rows) as the bytes that a leader is asked for."""

from __future__ import annotations

from collections.abc import Sequence

from raftmeta.members.rows import MemberRow

def role_name(roles: int) -> str:
    """The role of a row for the roles that a membership has (docs/formats.md "Membership")."""

def membership_bytes(rows: Sequence[MemberRow]) -> bytes:
    """The membership at rest of exactly these members (docs/formats.md "Membership").

    Raises InvalidArgument: more than 32, or rows that no membership can have.
    """
