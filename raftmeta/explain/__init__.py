"""Why did that happen? The flight recorders of a cluster's nodes, read side by side (docs/explain.md).

explained = raftmeta.explain.explain(["/var/lib/a", "/var/lib/b", "/var/lib/c"])
for incident in explained.incidents:
    print(incident.text, incident.cause.text, incident.cause.confidence)

rings       the file of one node, checked record by record
words       kinds of records, and a line of text for each
timeline    one clock for all records; lives of processes, names of members
causes      incidents, and what caused them
pages       text and HTML for people
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from raftmeta.errors import InvalidArgument
from raftmeta.explain.causes import Cause, Incident, incidents_of
from raftmeta.explain.rings import Record, Ring, read_ring
from raftmeta.explain.timeline import Life, Timeline, timeline_of
from raftmeta.explain.words import described

__all__ = ["Cause", "Explained", "Incident", "Life", "Record", "Ring", "Timeline", "explain"]


@dataclass(frozen=True, slots=True)
class Explained:
    """rings: as they were read. timeline: their records on one clock. incidents: in order of time."""

    rings: tuple[Ring, ...]
    timeline: Timeline
    incidents: tuple[Incident, ...]

    def line(self, record: Record) -> str:
        """A record in words."""
        return described(record, self.timeline.names)


def explain(folders: Iterable[str | os.PathLike[str]], *, since_s: float = 0.0) -> Explained:
    """Read the recorders of folders, or of copies of their files, and name the causes of what happened.

    folders: one for each node of one cluster; nodes that run are only looked at. since_s: leave out incidents that
    ended before that time, in seconds since 1970. Raises InvalidArgument, StorageCorrupt.
    """
    rings = tuple(read_ring(folder) for folder in folders)
    names = [ring.node for ring in rings]
    if not rings or len(set(names)) < len(names):
        raise InvalidArgument(f"folders: give one for each node, not {', '.join(names) or 'none'}", field="folders")
    timeline = timeline_of(rings)
    found = tuple(one for one in incidents_of(timeline) if one.ended_s >= since_s)
    return Explained(rings, timeline, found)
