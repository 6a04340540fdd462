"""The word of a parent or a service manager that a node's process is gone, told to a node (verbs/deaths)."""

from __future__ import annotations

from raftmeta.errors import NotReady

__all__ = ["check_level"]

LEVEL_OF_PROCESSES = 7  # machine/state


def check_level(level: int) -> None:
    """Raises NotReady while a member runs a version that knows of no processes."""
    if level < LEVEL_OF_PROCESSES:
        raise NotReady(f"a member runs an older version: feature level {level}, {LEVEL_OF_PROCESSES} is needed")
