"""Waiting for servers that were crashed, killed or frozen, until every party has an answer again."""

from __future__ import annotations

from typing import Any

from raftmeta import RaftmetaError
from raftmeta.conformance.kit import Kit, eventually

__all__ = ["BACK_S", "is_back"]

BACK_S = 90.0  # servers that start anew on a busy machine, and clients that find them


def is_back(kit: Kit) -> None:
    """Wait until every party has an answer; meanwhile a party may get the error that nobody answers."""
    for backend in kit.backends:
        eventually(lambda backend=backend: _answers(backend), "answers after the fault", timeout_s=BACK_S)  # type: ignore[misc]


def _answers(backend: Any) -> bool:
    try:
        backend.storage.get("conformance/is anybody there")
    except RaftmetaError:
        return False
    return True
