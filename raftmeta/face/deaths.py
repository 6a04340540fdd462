"""The word of a parent or a service manager that a node's process is gone (docs/leases.md)."""

from __future__ import annotations

from raftmeta.bindings.revision import Revision
from raftmeta.bindings.verbs import Request, end_process
from raftmeta.errors import NotReady

__all__ = ["end_of"]

LEVEL_OF_PROCESSES = 7  # machine/state


def end_of(member: int, boot: int, level: int) -> Request[Revision]:
    """The request that ends that process. Raises NotReady while a member runs a version that cannot apply it."""
    if level < LEVEL_OF_PROCESSES:
        raise NotReady(f"a member runs an older version: feature level {level}, {LEVEL_OF_PROCESSES} is needed")
    return end_process(member, boot)
