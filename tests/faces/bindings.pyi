"""Commands and results as functions that give and take bytes, for tests: as a node's verbs make and read them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from raftmeta.operations import CompareOperator, Fence, Operation

def encode_txn(
    compares: Iterable[CompareOperator] = (),
    then: Iterable[Operation] = (),
    otherwise: Iterable[Operation] = (),
    *,
    session: int = 0,
    sequence: int = 0,
    lowest_unanswered: int = 0,
    fence: Fence | None = None,
    value_bytes_max: int = ...,
) -> bytes:
    """Return the payload of a transaction (docs/formats.md "Commands").

    Raises InvalidArgument, whose field says where: `then[0].key`.
    """

def encode_operation(
    operation: Operation,
    *,
    session: int = 0,
    sequence: int = 0,
    lowest_unanswered: int = 0,
    fence: Fence | None = None,
    value_bytes_max: int = ...,
) -> bytes:
    """Return the payload of a transaction of this one operation, which is no Txn.

    Raises InvalidArgument with the name of the field.
    """

def decode_result(result: bytes) -> tuple[int, int, Any]:
    """Return (status, revision, body) of a result (docs/formats.md "Results"). Raises InvariantBroken: it is none."""

def decode_values(values: bytes) -> list[Any]:
    """Return the values that stand one after another, key records as KeyRecord. Raises InvariantBroken."""
