"""Coverage marks from Python: their names, and which of them this process has reached. marks.pxd says what they are."""

NAMES: tuple[str, ...]

def reached() -> set[str]:
    """Names of the marks that were reached since the process began or marks were cleared."""

def clear() -> None:
    """Begin anew: no mark is reached."""
