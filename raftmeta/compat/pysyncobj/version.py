"""The version of PySyncObj whose surface this package has."""

from __future__ import annotations

__all__ = ["VERSION"]

VERSION = "0.3.17"
