"""Small worlds from a line of text: name=value,... over the defaults of Exhaustive.

    founding=vll,target=lvv,changes=1,time_outs=2,crashes=0

The names are those of Exhaustive; logs are written 1.2.. (a dot behind each node's terms). It decides only how bounds
are written; raftmeta/sim/small/exhaustive says what they mean.
"""

from __future__ import annotations

from typing import Any

from raftmeta.sim.small.exhaustive_handle import Exhaustive

__all__ = ["small_world"]

_ROLES = ("founding", "target")
_COUNTS = ("time_outs", "proposals", "heartbeats", "crashes", "changes")
_SWITCHES = ("has_pre_votes", "has_heartbeats", "has_slow_disks", "is_plain")


def small_world(text: str = "") -> Exhaustive:
    """The small world that the text describes. Raises ValueError: an unknown name, or a bound that is out of range."""
    bounds: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        if name in _ROLES:
            bounds[name] = value
        elif name == "logs":
            bounds[name] = tuple(value.split(".")[:-1])
        elif name in _COUNTS and value.isdecimal():
            bounds[name] = int(value)
        elif name in _SWITCHES and value in ("0", "1"):
            bounds[name] = value == "1"
        else:
            known = ", ".join((*_ROLES, "logs", *_COUNTS, *_SWITCHES))
            raise ValueError(f"{part!r} is no bound of a small world; name=value, of: {known} (has_... are 0 or 1)")
    return Exhaustive(bounds.pop("founding", "vvv"), **bounds)
