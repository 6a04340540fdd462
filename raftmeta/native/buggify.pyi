"""Buggify points from Python: their names. buggify.pxd says what they are."""

def names() -> tuple[str, ...]:
    """Names of the points, in the order of the header."""
