"""The asyncio face over a back end that only blocks gives it what it was given."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from raftmeta.backends.threads import AioOverThreads
from raftmeta.errors import Fenced
from raftmeta.operations import Fence


class _Lost:
    """A member that its own process knows to be lost."""

    id, data, epoch = "a", b"", 7
    fence = Fence("tickets/1", 7)

    def held(self) -> bool:
        return False


class _Group:
    group = "g"

    def __init__(self, member: _Lost) -> None:
        self._member = member

    def join(self, *_arguments: Any, **_options: Any) -> _Lost:
        return self._member


class _Storage:
    """Knows the held object itself, and asks a server, which does not answer, about a bare fence."""

    def put(self, key: str, data: bytes, *, fence: object = None, timeout_s: float | None = 5.0) -> int:
        if isinstance(fence, _Lost) and not fence.held():
            raise Fenced("known here")
        raise AssertionError(f"asked a server about {fence!r}")

    delete = update = multi = put


@pytest.mark.parametrize("verb", ["put", "update", "delete", "multi"])
def test_a_fence_that_this_process_knows_to_be_lost_is_refused_without_a_server(verb: str) -> None:
    """Formerly the back end below got a bare fence, and the caller OutcomeUnknown while no server answered."""
    member = _Lost()
    below: Any = SimpleNamespace(storage=_Storage(), listeners=None, group=lambda _name: _Group(member))

    async def write() -> None:
        backend = AioOverThreads(below)
        held = await backend.group("g").join("a")
        await getattr(backend.storage, verb)("k", b"late", fence=held)

    with pytest.raises(Fenced):
        asyncio.run(write())
