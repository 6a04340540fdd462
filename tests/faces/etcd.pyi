def rows() -> list[tuple[int, int, str, int, int, bool]]:
    """Each field as (message, number, name, kind, of, is_list), by the numbers of schema.pxd."""

def has_field(message: int, number: int) -> bool: ...
def names() -> list[list[str]]:
    """The names of each enum's values."""

def is_message(message: int, data: bytes) -> bool:
    """Whether the bytes are such a message."""
