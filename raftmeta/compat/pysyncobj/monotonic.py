"""A clock under the name that programs import from PySyncObj."""

from __future__ import annotations

from time import monotonic

__all__ = ["monotonic"]
