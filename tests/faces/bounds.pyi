"""The bounds of strangers (net/unbound) and the buckets of quotas (server/quotas), alone."""

def address_of(descriptor: int) -> int:
    """The address at the other end of a socket, as a number."""

def address_from(packed: bytes) -> int:
    """The same, of the 4 or 16 bytes of an address."""

class Strangers:
    """Connections that have proved nothing yet, at most `most` in all and `most_of_address` from one address."""

    def __init__(self, most: int, most_of_address: int, grace_ns: int) -> None: ...
    def arrive(self, address: int, place: int, now_ns: int) -> tuple[int, int | None] | None:
        """One more: its entry, and the place that gave way to it. None: it is refused."""

    def leave(self, entry: int) -> None:
        """It proved who it is, or was closed."""

    def present(self) -> list[tuple[int, int]]:
        """Address and place of each, the oldest first."""

class Bucket:
    """A token bucket that is filled at per_s and saves up for burst_ns."""

    def __init__(self, per_s: int, burst_ns: int) -> None: ...
    def take(self, cost: int, now_ns: int) -> int:
        """0: taken; else in how many nanoseconds to try again."""
