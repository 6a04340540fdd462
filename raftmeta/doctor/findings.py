"""The form of everything that the doctor tells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Finding", "Level"]

Level = Literal["ok", "unknown", "warning", "failure"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check.

    check: its name; several findings may have the same. text: what was found, with its figures. advice: what to do; ""
    if there is nothing to do.
    level: "ok"; "unknown": it could not be found out; "warning": a node runs, but slowly or not for long; "failure": a
    node does not start, or will lose what it wrote, or is alone.
    """

    check: str
    level: Level
    text: str
    advice: str = ""
