"""Why did that happen? The flight recorders of a cluster's nodes, read side by side (docs/explain.md).

explained = raftmeta.explain.explain(["/var/lib/a", "/var/lib/b", client.flight_recorder()])
for incident in explained.incidents:
    print(incident.text, incident.cause.text, incident.cause.confidence)

rings       the file of one node, checked record by record
asking      the recorders of nodes that run, over the client protocol
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
from raftmeta.explain.asking import Asked, Silent, ask
from raftmeta.explain.causes import Cause, Incident, incidents_of
from raftmeta.explain.rings import Record, Ring, parse_ring, read_ring
from raftmeta.explain.timeline import Life, Timeline, timeline_of
from raftmeta.explain.words import described

__all__ = [
    "Asked",
    "Cause",
    "Explained",
    "Incident",
    "Life",
    "Record",
    "Ring",
    "Silent",
    "Timeline",
    "ask",
    "explain",
]


@dataclass(frozen=True, slots=True)
class Explained:
    """rings: as they were read. timeline: their records on one clock. incidents: in order of time.

    silent: addresses that were asked and gave no records.
    """

    rings: tuple[Ring, ...]
    timeline: Timeline
    incidents: tuple[Incident, ...]
    silent: tuple[Silent, ...] = ()

    def line(self, record: Record) -> str:
        """A record in words."""
        return described(record, self.timeline.names)


def explain(
    sources: Iterable[str | os.PathLike[str] | bytes] = (), *, asked: Asked | None = None, since_s: float = 0.0
) -> Explained:
    """Read the flight recorders of sources and name the causes of what happened.

    sources: one for each node of one cluster: a folder, a copy of its file, or the content that `flight_recorder()` of
    a node or client gave. Nodes that run are only looked at. asked: answers of nodes that run, from `ask`; a source of
    a node that answered is left out. since_s: leave out incidents that ended before that time, in seconds since 1970.
    Raises InvalidArgument, StorageCorrupt.
    """
    rings = asked.rings if asked is not None else ()
    answered = {ring.node for ring in rings}
    read = [
        parse_ring(one, source="memory", is_running=True) if isinstance(one, bytes) else read_ring(one)
        for one in sources
    ]
    rings += tuple(ring for ring in read if ring.node not in answered)
    names = [ring.node for ring in rings]
    if not rings or len(set(names)) < len(names):
        raise InvalidArgument(f"folders: give one for each node, not {', '.join(names) or 'none'}", field="folders")
    timeline = timeline_of(rings, voters=asked.voters if asked is not None else ())
    found = tuple(one for one in incidents_of(timeline) if one.ended_s >= since_s)
    return Explained(rings, timeline, found, asked.silent if asked is not None else ())
