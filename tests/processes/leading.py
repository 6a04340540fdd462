"""Who leads a cluster, by what its members tell of themselves."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any


def leader_of(told: Mapping[str, Mapping[str, Any]], voters: Collection[str]) -> str | None:
    """The member that leads by its own word and that of a majority of the voters, in one term; None without one.

    told: role, term and leader as each member knows them, by the names of the members that answered.
    """
    for name, one in told.items():
        belief = one["term"], one["leader"]
        followers = [
            other for other in voters if other in told and (told[other]["term"], told[other]["leader"]) == belief
        ]
        if one["role"] == "leader" and 2 * len(followers) > len(voters):
            return name
    return None
