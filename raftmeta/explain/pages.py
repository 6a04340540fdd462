"""The findings, for people and programs: text, a value for JSON, one page of HTML that loads nothing.

It decides which records stand around an incident. It never judges.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from raftmeta.explain import Explained, Incident, Record

__all__ = ["as_html", "as_text", "as_value", "gaps", "moment"]

AROUND_S = 1.0  # records that long before and after an incident are shown with it
RECORDS_MAX = 200


def moment(at_s: float) -> str:
    """UTC, to the millisecond."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def around(explained: Explained, incident: Incident) -> list[tuple[float, Record]]:
    """The records while an incident went on, and shortly before and after; those of its cause too."""
    evidence = {id(record) for record in incident.cause.evidence}
    low, high = incident.begun_s - AROUND_S, incident.ended_s + AROUND_S
    found = [
        (at_s, record) for at_s, record in explained.timeline.records if low <= at_s <= high or id(record) in evidence
    ]
    return found[:RECORDS_MAX]


def gaps(explained: Explained) -> Iterator[str]:
    """Lines: whose records are missing, and why."""
    for one in explained.silent:
        name = f" ({one.name})" if one.name else ""
        yield f"{one.address}{name} gave no records: {one.reason}"
    if explained.timeline.absent:
        yield f"no records of {', '.join(explained.timeline.absent)}"


def as_text(explained: Explained, incidents: list[Incident], *, with_records: bool) -> Iterator[str]:
    """Lines: two for each incident, and its records below if they are wanted."""
    for incident in incidents:
        number = f" {incident.number}" if incident.number else ""
        yield f"{moment(incident.begun_s)}  {incident.kind}{number}: {incident.text}{_length(incident)}"
        yield f"    {incident.cause.confidence}: {incident.cause.text}"
        for doubt in incident.uncertain:
            yield f"    uncertain: {doubt}"
        if with_records:
            for at_s, record in around(explained, incident):
                yield f"        {moment(at_s)[11:]}  {record.node}  {explained.line(record)}"


def as_value(explained: Explained, incidents: list[Incident]) -> dict[str, Any]:
    """Of plain lists and dictionaries."""
    return {
        "nodes": [
            {"name": ring.node, "source": ring.source, "is_running": ring.is_running, "torn": ring.torn}
            for ring in explained.rings
        ],
        "silent": [{"address": one.address, "name": one.name, "reason": one.reason} for one in explained.silent],
        "missing": list(explained.timeline.absent),
        "clock_shifts_s": explained.timeline.shifts_s,
        "incidents": [
            {
                "kind": incident.kind,
                "number": incident.number,
                "begun_s": incident.begun_s,
                "ended_s": incident.ended_s,
                "nodes": list(incident.nodes),
                "text": incident.text,
                "cause": incident.cause.text,
                "confidence": incident.cause.confidence,
                "uncertain": list(incident.uncertain),
                "records": [
                    {"at_s": explained.timeline.at(record), "node": record.node, "text": explained.line(record)}
                    for record in incident.cause.evidence
                ],
            }
            for incident in incidents
        ],
    }


def as_html(explained: Explained, incidents: list[Incident]) -> str:
    """One page; the records of an incident unfold below it."""
    rows = "\n".join(_row(explained, incident) for incident in incidents)
    names = ", ".join(html.escape(ring.node) for ring in explained.rings)
    missing = "".join(f"<p class=unknown>{html.escape(line)}</p>" for line in gaps(explained))
    rows = rows or "<p>Nothing was recorded that needs a cause.</p>"
    return PAGE.replace("{names}", names).replace("{gaps}", missing).replace("{rows}", rows)


def _row(explained: Explained, incident: Incident) -> str:
    records = "\n".join(
        f"<tr><td>{moment(at_s)[11:]}</td><td>{html.escape(record.node)}</td>"
        f"<td>{html.escape(explained.line(record))}</td></tr>"
        for at_s, record in around(explained, incident)
    )
    number = f" {incident.number}" if incident.number else ""
    cause = incident.cause
    doubts = "".join(f"<div class=unknown>uncertain: {html.escape(doubt)}</div>" for doubt in incident.uncertain)
    return (
        f'<details class="{incident.kind}"><summary><time>{moment(incident.begun_s)}</time> '
        f"<b>{incident.kind.replace('_', ' ')}{number}</b> {html.escape(incident.text)}{_length(incident)}"
        f'<div class="{cause.confidence}">{cause.confidence}: {html.escape(cause.text)}</div>{doubts}'
        f"</summary><table>{records}</table></details>"
    )


def _length(incident: Incident) -> str:
    length_ms = round((incident.ended_s - incident.begun_s) * 1000)
    return f" ({length_ms} ms)" if length_ms else ""


PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>raftmeta explain</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>
body { font: 14px/1.5 system-ui, sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em; color: #222; }
details { border-left: 4px solid #bbb; margin: .5em 0; padding: .2em .8em; }
details.leader_change { border-color: #06c; }
details.slow_write, details.disk { border-color: #c60; }
details.leases_lost, details.end { border-color: #c00; }
summary { cursor: pointer; }
time, td { font-family: ui-monospace, monospace; font-size: 12px; }
td { padding: 0 1em 0 0; vertical-align: top; }
.certain { color: #070; } .likely { color: #850; } .unknown { color: #777; }
</style></head><body>
<h1>Why did that happen?</h1>
<p>Flight recorders of {names}. Times are UTC. An incident unfolds to the records around it.</p>
{gaps}
{rows}
</body></html>
"""
