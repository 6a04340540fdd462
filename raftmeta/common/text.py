"""Bytes that come from outside, as text for people.

Names and addresses are checked where they come in (native/text.hpp). A folder or a node of an earlier version may hold
others all the same, and showing them must not fail.
"""

from __future__ import annotations

__all__ = ["shown"]


def shown(raw: bytes) -> str:
    """The text in these bytes; a byte that is none is shown as \\xff."""
    return raw.decode(errors="backslashreplace")
