"""Members and assignments as bytes, for groups that carry them without reading them.

It decides how raftmeta writes them: msgpack arrays that begin with a version. A reader takes the fields that it knows
and ignores further ones, so a later version adds fields at the end. Foreign forms, such as Kafka's ConsumerProtocol
and Connect's, are other objects with the same interface (Codec).

    member       [1, topics or nil, owned, generation, metadata]
    assignment   [1, resources, revoked]

The id and the instance of a member are not among the bytes: the group knows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgpack

from raftmeta.assignors.shapes import Member
from raftmeta.errors import InvalidArgument

__all__ = ["Codec", "OwnCodec"]

FORMAT_VERSION = 1
GENERATION_MAX = (1 << 63) - 1


class Codec(Protocol):
    """A form of the bytes that members and the leader of a group send one another."""

    def encode_member(self, member: Member) -> bytes:
        """Everything of a member but its ids."""

    def decode_member(self, data: bytes, *, id: str, instance_id: str | None = None) -> Member:
        """The member that encode_member was given. Raises InvalidArgument for other bytes."""

    def encode_assignment(self, resources: Sequence[str], revoked: Sequence[str] = ()) -> bytes:
        """A member's part of a plan."""

    def decode_assignment(self, data: bytes) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """(resources, revoked). Raises InvalidArgument for other bytes."""


class OwnCodec:
    """raftmeta's form."""

    def encode_member(self, member: Member) -> bytes:
        topics = None if member.topics is None else sorted(member.topics)
        packed: bytes = msgpack.packb(
            [FORMAT_VERSION, topics, sorted(member.owned), member.generation, member.metadata]
        )
        return packed

    def decode_member(self, data: bytes, *, id: str, instance_id: str | None = None) -> Member:
        topics, owned, generation, metadata = _fields(data, 4, "member")
        if type(generation) is not int or not -1 <= generation <= GENERATION_MAX:
            raise InvalidArgument(f"member: the generation is {generation!r}, not a number from -1 on", field="member")
        if not isinstance(metadata, bytes):
            raise InvalidArgument("member: the metadata are no bytes", field="member")
        asked = None if topics is None else frozenset(_texts(topics, "member"))
        return Member(id, instance_id, asked, _texts(owned, "member"), generation, metadata)

    def encode_assignment(self, resources: Sequence[str], revoked: Sequence[str] = ()) -> bytes:
        packed: bytes = msgpack.packb([FORMAT_VERSION, list(resources), list(revoked)])
        return packed

    def decode_assignment(self, data: bytes) -> tuple[tuple[str, ...], tuple[str, ...]]:
        resources, revoked = _fields(data, 2, "assignment")
        return _texts(resources, "assignment"), _texts(revoked, "assignment")


def _fields(data: bytes, count: int, what: str) -> list[Any]:
    """So many fields behind the version."""
    try:
        fields = msgpack.unpackb(data)
    except (ValueError, TypeError, msgpack.UnpackException):
        raise InvalidArgument(f"{what}: {len(data)} bytes that are no msgpack", field=what) from None
    if not isinstance(fields, list) or len(fields) <= count or type(fields[0]) is not int or fields[0] < FORMAT_VERSION:
        raise InvalidArgument(f"{what}: is no array of a version and {count} fields", field=what)
    return fields[1 : count + 1]


def _texts(given: Any, what: str) -> tuple[str, ...]:
    if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
        raise InvalidArgument(f"{what}: where names should stand is {type(given).__name__}", field=what)
    return tuple(given)
