"""The checker for Python: columns in, verdicts out, without the GIL between them.

Numbers stand for words: verdicts, engines and limits are those of raftmeta/check/portfolio.pxd, reasons and meanings
those of raftmeta/check/meaning.pxd. raftmeta.check.Prepared gives them their names.
"""

from typing import Any

RUNNING: int
LEGAL: int
ILLEGAL: int
ASKS: int
MEMORY: int

class CheckHandle:
    """A history that was loaded: its components, their verdicts, and searches in them."""

    def __init__(
        self,
        numbers: tuple[Any, ...],
        texts: tuple[tuple[Any, Any], ...],
        meanings: bytes,
        *,
        is_table: bool,
        object_kind: int = 0,
        initial: bytes = b"null",
        steps_max: int,
        bytes_max: int,
        time_ns: int = 0,
        engines: int = 7,
        stops_at_violation: bool = False,
    ) -> None:
        """Load a history.

        numbers: buffers of seq, process, kind (8 bits), operation (32 bits) and revision; the others have 64 bits.
        texts: (offsets, bytes) of key, arguments and result. meanings: a Meaning for each code in operation. is_table:
        the model is written in Python. object_kind: an Object of raftmeta/check/objects.pxd. initial: canonical text of
        the value of every key. steps_max: for one component. bytes_max: for one engine. time_ns: for everything, from
        now; 0: no limit. engines: a sum of 1 witness, 2 WGL, 4 just-in-time. stops_at_violation: once a component has
        no linearization, those that need another turn are unknown.
        Raises ValueError for columns that do not fit each other and an `initial` that the object cannot have,
        MemoryError.
        """
    @property
    def components(self) -> int:
        """How many components there are."""
    @property
    def operations(self) -> int:
        """Operations in all components."""
    @property
    def failed(self) -> int:
        """Operations that certainly were not executed: left out."""
    @property
    def unaffecting(self) -> int:
        """Operations that can neither change nor tell anything, such as crashed reads: left out."""
    def malformed(self) -> list[tuple[int, int]]:
        """(row, Reason) of each event that makes no sense."""
    def run(self, slice_s: float) -> int:
        """Go on for so many seconds: LEGAL when all components are decided, RUNNING, or ASKS. Raises MemoryError."""
    def asked(self) -> tuple[int, int, bool, bytes, bytes]:
        """After ASKS: state, code of the operation, has it crashed, arguments, result."""
    def answer(self, state: int | None) -> None:
        """The state that this operation leads to; None: it cannot have returned that. Raises MemoryError."""
    def reject(self) -> None:
        """Instead of an answer: the operation makes no sense, and its component is malformed."""
    def outcome(self, component: int) -> tuple[int, int, int, int, int, int]:
        """Verdict, engine, limit, steps, nanoseconds, operations. Raises IndexError for one that is not decided."""
    def not_ok(self) -> list[int]:
        """The components whose verdict is not ok."""
    def engines(self) -> tuple[int, ...]:
        """How many components each engine decided: none, witness, WGL, just-in-time."""
    def steps(self) -> int:
        """Steps of the searches in all components."""
    def keys(self, component: int) -> list[bytes]:
        """Its keys, as canonical texts. Raises IndexError."""
    def operation(self, component: int, number: int) -> tuple[int, int | None, bool]:
        """Row of its invocation, row of its completion or None, can it change anything. Raises IndexError."""
    def removable(self, component: int, numbers: list[int]) -> list[int]:
        """Which of these may be taken away: if all of them have a linearization, the rest has one too."""
    def state_values(self, component: int, state: int) -> list[bytes]:
        """The values of a state of a native model, in the order of keys()."""
    def object_state(self, state: int) -> list[bytes]:
        """Of a native object: the texts of the values in a state; of a counter and a text, one."""
    def order(self) -> list[int] | None:
        """The linearization of the component that was decided last, where witness or WGL found one."""
    def group(self, rows_max: int) -> None:
        """Find out which rows go together, for buckets of at most rows_max rows, or one component. Raises MemoryError."""
    def invocations(self) -> bytes:
        """After group(): for each row the row of the invocation that it completes, or -1; 32-bit numbers."""
    def buckets(self) -> list[bytes]:
        """After group(): the rows of each bucket, all events of whole components; 32-bit numbers, ascending."""
    def outside(self) -> bytes:
        """After group(): rows in no bucket: of tainted components, and of none, as those of operations that failed."""
    def tainted(self) -> list[int]:
        """The components that an event which makes no sense belongs to: they will be malformed."""
    def begin(self, component: int) -> int:
        """Make searches in this component possible; returns its first state. Raises MemoryError."""
    def cuts(self, component: int) -> list[tuple[int, bytes]]:
        """(row, value): nothing at all is under way behind this row, and the key then holds this value for certain.

        So the events up to there and those after it can be checked apart. Empty for components of several keys, for
        models written in Python, and behind a crashed operation that matters.
        """
    def search_begin(self, component: int, numbers: list[int], states: list[int]) -> None:
        """Search for a linearization of these of its operations from any of these states. Raises MemoryError."""
    def search_run(self, slice_s: float) -> int:
        """Go on for so many seconds: RUNNING, LEGAL, ILLEGAL, ASKS or MEMORY."""
    def search_failed(self) -> int:
        """After ILLEGAL: the first operation that fits none of the possible configurations."""
    def search_before(self) -> list[tuple[int, list[int]]]:
        """After ILLEGAL: these configurations, each a state and the operations under way that have taken effect."""
    def search_window(self) -> tuple[list[int], list[tuple[int, list[int]]]]:
        """After ILLEGAL: the operations since no operation was under way that completes, and what was possible then."""
