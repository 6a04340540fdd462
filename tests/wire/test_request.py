"""A request of a caller (bindings/verbs): when it is encoded anew, and what its error tells."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from raftmeta import InvalidArgument, KeyMissing, NodeRemoved, NotReady, Overloaded, ReadyTimeout
from raftmeta.bindings import verbs
from raftmeta.bindings.requests import RequestEncoder
from raftmeta.bindings.verbs import Request

ENDED = NotReady("the session ended")


class Carrier:
    """Answers a request with what is next in `outcomes`, and counts what it does."""

    def __init__(self, *outcomes: Any, is_late: bool = False) -> None:
        self.outcomes = list(outcomes)
        self.encoder = RequestEncoder(100)
        self.encoder.session = 1
        self.sessions = 0
        self.frames: list[bytes] = []
        self.late = is_late

    def _prepare(self, request: Request[Any], timeout_s: float | None) -> float | None:
        request.check(100)
        return timeout_s

    def _has_session(self) -> bool:
        return False

    async def _session(self, deadline: Any) -> None:
        self.sessions += 1

    async def _carry(self, request: Request[Any], deadline: Any) -> Any:
        self.frames.append(self.encoder.command(request))
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _is_late(self, deadline: Any) -> bool:
        return self.late


def ask(carrier: Carrier, request: Request[Any]) -> Any:
    return asyncio.run(request.ask_aio(carrier, 5.0))


def test_a_request_is_encoded_anew_while_its_session_ends() -> None:
    """NotReady is certainly not executed: it waits for a session again, and takes the next sequence."""
    carrier = Carrier(ENDED, ENDED, 7)
    assert ask(carrier, verbs.put("k", b"v")) == 7
    assert carrier.sessions == 3 and len(set(carrier.frames)) == 3


@pytest.mark.parametrize("error", [NodeRemoved("gone"), Overloaded("full"), KeyMissing("k")])
def test_another_error_ends_a_request(error: Exception) -> None:
    """A node that was removed gets no session any more."""
    carrier = Carrier(error, 7)
    with pytest.raises(type(error)):
        ask(carrier, verbs.put("k", b"v"))
    assert len(carrier.frames) == 1


def test_a_request_that_is_late_is_not_asked_again() -> None:
    with pytest.raises(NotReady):
        ask(Carrier(ENDED, 7, is_late=True), verbs.put("k", b"v"))


def test_no_session_in_time_ends_a_request() -> None:
    """What its carrier raises before it has a session is no answer to it."""
    carrier = Carrier()

    async def await_session(deadline: Any) -> None:
        raise ReadyTimeout("no leader")

    carrier._session = await_session  # type: ignore[method-assign]
    with pytest.raises(ReadyTimeout):
        ask(carrier, verbs.put("k", b"v"))
    assert carrier.frames == []


def test_many_puts_say_how_many_are_done() -> None:
    """Group by group; the error is about the group behind the items that are done."""
    items = [(f"k{number}", b"") for number in range(5000)]
    carrier = Carrier(1, ENDED, 2)
    assert ask(carrier, verbs.put_many(items)) == 2 and len(carrier.frames) == 3
    with pytest.raises(KeyMissing) as caught:
        ask(Carrier(1, KeyMissing("k")), verbs.put_many(items))
    assert caught.value.items_done == 4096
    assert ask(Carrier(), verbs.put_many([])) is None


@pytest.mark.parametrize(
    ("field", "request_"),
    [
        ("key", verbs.put("", b"v")),
        ("value", verbs.create("k", bytes(101))),
        ("lease", verbs.create("k", b"v", None)),  # type: ignore[arg-type]
        ("expected_revision", verbs.update("k", b"v", -1)),
        ("end", verbs.delete_range("a", 5)),  # type: ignore[arg-type]
        ("number", verbs.add("k", "1")),  # type: ignore[arg-type]
        ("items[1].value", verbs.put_many([("a", b"v"), ("b", bytes(101))])),
        ("call", verbs.machine_call(b"m", bytes(101))),
        ("fence", verbs.delete("k", fence=5)),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_argument_is_found_before_anything_is_sent(field: str, request_: Request[Any]) -> None:
    carrier = Carrier(7)
    with pytest.raises(InvalidArgument) as caught:
        ask(carrier, request_)
    assert caught.value.field == field
    assert carrier.sessions == 0 and carrier.frames == []
