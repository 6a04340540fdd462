"""The rings and lines of an audit trail as a Python object."""

HASH_BYTES: int
CLASSES: tuple[str, ...]
OPERATIONS: tuple[str, ...]

def escaped(text: bytes) -> str:
    """A name or key as it stands in lines: bytes outside printable ASCII, and each of " % and \\, as %XX."""

class AuditHandle:
    """Rings that native threads push records into, and the lines that one thread of Python makes of them."""

    def __init__(
        self,
        *,
        reads: bool = False,
        writes: bool = False,
        required: bool = False,
        chain_key: bytes | None = None,
        keys_key: bytes | None = None,
    ) -> None:
        """Keys have HASH_BYTES. chain_key: of the chain's HMAC; keys_key: of the hashes that stand for keys."""
    def begin(self, node: str, cluster: str, number: int, chain: bytes, verdicts: dict[int, str]) -> None:
        """Go on behind the line with this number and chain. verdicts: the words for statuses, below 32 bytes each."""
    @property
    def number(self) -> int:
        """Of the last line that was made."""
    @property
    def chain(self) -> bytes:
        """Of the last line that was made."""
    def take(self, bytes_max: int) -> bytes:
        """Lines of the records that wait, until they have bytes_max. MemoryError: none was made."""
    def add(self, fields: str, wall_ms: int) -> bytes:
        """A line with these fields: JSON without braces. wall_ms: since 1970."""
    def wait(self, timeout_s: float, is_pause: bool = False) -> None:
        """Sleep without the GIL until a record comes, or wake(). is_pause: until many have come."""
    def wake(self) -> None:
        """End a wait; from any thread."""
    @property
    def is_failing(self) -> bool:
        """Whether the last write failed: with `required`, requests are refused meanwhile."""
    @is_failing.setter
    def is_failing(self, value: bool) -> None: ...
    @property
    def taken(self) -> int:
        """Records that had room, since the beginning."""
    @property
    def dropped(self) -> tuple[int, ...]:
        """Records that had none, in the order of CLASSES."""
    @property
    def suppressed(self) -> int:
        """Refusals beyond their rate."""
