def rows() -> list[tuple[int, int, str, int, int, bool]]:
    """Each field as (message, number, name, kind, of, is_list), by the numbers of schema.pxd."""

def has_field(message: int, number: int) -> bool: ...
def names() -> list[list[str]]:
    """The names of each enum's values."""

def is_message(message: int, data: bytes) -> bool:
    """Whether the bytes are such a message."""

def token(seed: bytes, name: bytes, since: int, now_ms: int) -> bytes:
    """A token for the user, made at this time of the lease clock."""

def read_token(seed: bytes, text: bytes, now_ms: int) -> tuple[bytes, int] | None:
    """(name, since), or None: it counts for nothing."""

def guesses(times_ns: list[int]) -> list[bool]:
    """Whether each of these wrong guesses of one name was looked at; one that was not does not count."""
