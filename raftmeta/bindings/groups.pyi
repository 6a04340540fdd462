"""The lists of pairs in the records of worker groups."""

def group_pairs(data: bytes) -> list[tuple[bytes, bytes]]:
    """The pairs of a list in a group's record, as a member's protocols and what it says under them."""
