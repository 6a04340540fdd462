"""Own logs of a Kafka door as Python sees them (own_logs.pxd)."""

PRODUCE: int
FETCH: int
LIST: int

class OwnLogsHandle:
    """The way of requests from a door to its host, and back. timeout_ns: so long the host may take for a request."""

    def __init__(self, bytes_max: int, timeout_ns: int) -> None: ...
    def fileno(self) -> int:
        """A descriptor that can be read once there is something to take, or the door has ended."""
    @property
    def is_closing(self) -> bool:
        """Whether the door has ended: nothing comes any more."""
    @property
    def broker(self) -> int:
        """The number of this node's broker; -1: it is not known yet."""
    def take(self) -> list[OwnRequest]:
        """Requests that came since the last call, in their order."""
    def grown(self, topic: bytes, partition: int) -> None:
        """Fetches that wait for this log ask again."""

class OwnRequest:
    """One partition of a request of a client. It is answered once; one that is collected is answered by an error."""

    @property
    def kind(self) -> int: ...
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    @property
    def number(self) -> int: ...
    @property
    def bytes_max(self) -> int: ...
    @property
    def records(self) -> bytes: ...
    def appended(self, offset: int) -> None:
        """The batch was appended; its first record has this offset."""
    def fetched(self, records: bytes, start: int, end: int) -> None:
        """Whole batches, and where the log begins and ends. Raises ValueError: too many bytes."""
    def found(self, offset: int, timestamp: int) -> None:
        """The offset that was looked for; -1: there is none."""
    def refused(self, code: int) -> None:
        """An error of Kafka's protocol."""
