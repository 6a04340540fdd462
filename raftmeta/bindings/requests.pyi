"""The client protocol from Python: requests as frames, a stream of bytes as messages, answers as values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, final

from raftmeta.bindings.verbs import Request
from raftmeta.operations import Key

NOTHING: int
NUMBER: int
RECORD: int
RANGE: int
VALUES: int
BYTES: int
OUTCOME: int

ANSWER: int
EVENTS: int
PING: int
LEADER: int
REFUSED: int

class ServerHello(NamedTuple):
    """The node's first frame. address: where clients reach it; cluster_id: 0 before the founding."""

    name: str
    address: str
    cluster: str
    cluster_id: int

@final
class RequestEncoder:
    """Makes the frames of one client and counts its ids and sequences; every command takes the next sequence.

    session: in which commands are encoded; lowest_unanswered: the client's own mark; id, last_sequence: of the frame
    made last. Every method raises InvalidArgument, whose field names the argument, and then has counted nothing.
    """

    session: int
    sequence: int
    lowest_unanswered: int
    id: int
    value_bytes_max: int
    def __init__(self, value_bytes_max: int) -> None: ...
    def command(self, request: Request[Any]) -> bytes:
        """The command of a request, in the session of now."""
    def keep_alive(self, leases: Iterable[int]) -> bytes:
        """A command that renews the session and these leases."""
    def open_session(self, session: int, ttl_ms: int, window: int) -> bytes:
        """The command that opens a session; it takes no sequence."""
    def close_session(self) -> bytes:
        """A command that closes the session."""
    def get(self, key: Key, revision: int, local: bool) -> bytes:
        """A request for one key."""
    def range(
        self,
        start: Key,
        end: Key,
        revision: int,
        limit: int,
        local: bool,
        keys_only: bool,
        count_only: bool,
        delimiter: Key = b"",
        skip: int = 0,
    ) -> bytes:
        """A request for the keys of [start, end); with a delimiter behind `skip` bytes of a key, in groups."""
    def watch(self, start: bytes, end: bytes, revision: int, filter: int) -> bytes:
        """A request for the changes of [start, end)."""
    def unwatch(self, watch: int) -> bytes:
        """A request that ends a watch."""
    def status(self) -> bytes:
        """A request for what the node says of itself."""
    def ping(self, *, is_answer: bool = False) -> bytes:
        """A request that proves that both sides live; as the answer to the node's ping it has the id 0."""
    def transfer(self, name: str) -> bytes:
        """A request to hand the leadership over."""
    def members(self, *, local: bool) -> bytes:
        """A request for the members; local: as the node sees them, without a read round."""
    def change(self, made_from: int, membership: bytes) -> bytes:
        """A request for other members; made_from: index of the membership that they were made from."""
    def meet(self, name: str, address: str) -> bytes:
        """A request that the node connects to one that is no member."""
    def leases(self, least: int) -> bytes:
        """A request for a page of the leases with this id and above, in order, as the node has applied them."""
    def rights(self, page: int, first: bytes, limit: int) -> bytes:
        """A request for a page of users or roles (machine/rights_show): names from first on, limit of them; 0: a page."""
    def flight(self, part: int, first: int, limit: int) -> bytes:
        """A request for records of one part of the flight recorder, from number first on, at most limit of them."""
    def snapshot(self) -> bytes:
        """A request to open a sealed file with everything acknowledged so far."""
    def piece(self, offset: int, length: int) -> bytes:
        """A request for bytes of that file."""
    def machine_read(self, machine: bytes, call: bytes, *, local: bool) -> bytes:
        """A request that the node's copy of a user machine runs a read."""

@final
class MessageDecoder:
    """The bytes that a node sends, in any pieces, as messages (kind, id, status, revision, index, body).

    hello: of the node, None until it came.
    """

    @property
    def hello(self) -> ServerHello | None: ...
    def feed(self, data: bytes) -> list[tuple[int, int, int, int, int, bytes]]:
        """Take more bytes, return the messages that are whole. Raises ConnectionError: this is no node's stream."""

AUTHENTICATE_ID: int

def authenticate_frame(first: bytes, second: bytes, *, proves: bool) -> bytes:
    """A request of an authentication: a name and a nonce, or both nonces and the proof."""

def hello_frame(cluster: str, name: str) -> bytes:
    """The frame with which a client begins."""

def answer_value(purpose: int, revision: int, index: int, body: bytes) -> Any:
    """The value of an answer whose status is OK, by what was asked. Raises InvariantBroken: it is none."""
