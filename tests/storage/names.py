"""The numbers of the storage headers as Python enums, read from the .pxd files so that no number is written twice."""

from __future__ import annotations

from tests.core.names import Status, read_enum

__all__ = ["Status", "WalState"]

WalState = read_enum("WAL_CLEAN")
