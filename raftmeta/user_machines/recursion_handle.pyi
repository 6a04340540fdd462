"""How deep a command of a user machine may recurse: the same on every node, whatever its host has set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

def call_within_depth(function: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any], depth: int) -> T:
    """Call function with at most `depth` calls nested in it. Raises RecursionError beyond, and what function raises."""
