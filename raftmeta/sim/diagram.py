"""A story as a sequence diagram: one column per node, time downward; as text, and as one page that needs nothing else.

It decides how much of a long story is shown: its end, and of heartbeats nothing.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence

__all__ = ["html_page", "lines_of", "text_diagram"]

Note = Mapping[str, int | str]

MESSAGES = {
    1: "APPEND", 2: "APPEND_RESPONSE", 3: "HEARTBEAT", 4: "HEARTBEAT_RESPONSE", 5: "PRE_VOTE", 6: "PRE_VOTE_RESPONSE",
    7: "VOTE", 8: "VOTE_RESPONSE", 9: "PROPOSE", 10: "PROPOSE_RESPONSE", 11: "READ_INDEX", 12: "READ_INDEX_RESPONSE",
    13: "SNAPSHOT", 14: "SNAPSHOT_RESPONSE", 15: "TRANSFER", 16: "TIMEOUT_NOW", 17: "ENTRY_REQUEST",
    18: "ENTRY_RESPONSE", 19: "MEMBERSHIP_PROPOSE",
}  # fmt: skip
QUIET = {3, 4}  # heartbeats: a line each would be most of the page
ROLES = {1: "follower", 2: "pre-candidate", 3: "candidate", 4: "leader"}
FAULTS = (
    "partition", "leader isolated", "old frames replayed", "crash", "crash of all", "pause", "wall clock leaps",
    "power will fail at a sync", "disk wiped", "bit flipped", "write misdirected", "disk call fails", "disk full",
    "leadership handed over", "membership changed", "all healed", "all clients call",
)  # fmt: skip
COLUMN = 26


def _what(note: Note) -> str:
    kind, a, b, c = note["what"], int(note["a"]), int(note["b"]), int(note["c"])
    if kind == "frame":
        refused = " no" if a >> 8 else ""
        return f"{MESSAGES.get(a & 0xFF, 'message')}{refused} t{b} i{c}"
    if kind == "fault":
        return FAULTS[a]
    if kind == "role":
        return f"{ROLES.get(a, 'role')} t{b}"
    return f"committed {a}" if kind == "commit" else str(kind)


def _is_shown(note: Note) -> bool:
    return not (note["what"] == "frame" and int(note["a"]) & 0xFF in QUIET)


def lines_of(notes: Iterable[Note], lines_max: int = 200) -> list[tuple[float, int, int, str]]:
    """(milliseconds, source column, target column, text) of the last lines worth showing; source -1: all columns."""
    shown = [note for note in notes if _is_shown(note)][-lines_max:]
    lines = []
    for note in shown:
        source = -1 if note["what"] == "fault" else int(note["node"])
        lines.append((int(note["time_ns"]) / 1e6, source, int(note["other"]), _what(note)))
    return lines


def text_diagram(notes: Iterable[Note], nodes: int, lines_max: int = 200) -> str:
    """The end of the story in columns of text."""
    out = [" " * 12 + "".join(f"n{number}".center(COLUMN) for number in range(nodes))]
    for at_ms, source, target, text in lines_of(notes, lines_max):
        head = f"{at_ms:10.2f}  "
        if source < 0:
            out.append(head + f" {text} ".center(COLUMN * nodes, "="))
        elif source == target:
            out.append(head + " " * (COLUMN * source) + f"[{text}]".center(COLUMN))
        else:
            out.append(head + _arrow(source, target, text))
    return "\n".join(line.rstrip() for line in out) + "\n"


def _arrow(source: int, target: int, text: str) -> str:
    """An arrow over the columns between two nodes, with its text inside."""
    left, right = sorted((source, target))
    width = COLUMN * (right - left) - 2
    body = f" {text} ".center(width, "-")[:width]
    body = body + ">" if source < target else "<" + body
    return " " * (COLUMN * left + COLUMN // 2) + body


def html_page(title: str, notes: Sequence[Note], nodes: int, lines_max: int = 400) -> str:
    """The same as one page of HTML with an SVG inside; it loads nothing."""
    lines = lines_of(notes, lines_max)
    column, row, left = 190, 20, 100
    height = row * (len(lines) + 3)
    width = left + column * nodes
    parts = []
    for number in range(nodes):
        x = left + column * number + column // 2
        parts.append(f'<text x="{x}" y="16" class="name">n{number}</text>')
        parts.append(f'<line x1="{x}" y1="24" x2="{x}" y2="{height}" class="life"/>')
    for place, (at_ms, source, target, text) in enumerate(lines):
        y = row * (place + 2)
        parts.append(f'<text x="4" y="{y}" class="time">{at_ms:.2f} ms</text>')
        parts.append(_svg_line(text, source, target, y, left, column, width))
    style = (
        "body{font:13px sans-serif}text{font-size:11px;text-anchor:middle}.time{text-anchor:start;fill:#777}"
        ".name{font-weight:bold;font-size:13px}.life{stroke:#ccc}.arrow{stroke:#246;marker-end:url(#a)}"
        ".fault{fill:#b00;font-weight:bold}.state{fill:#060}"
    )
    tip = '<path d="M0,0 L7,3 L0,6"/>'
    head = f'<marker id="a" markerWidth="8" markerHeight="8" refX="7" refY="3" orient="auto">{tip}</marker>'
    return (
        f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{style}</style>"
        f"<h1>{html.escape(title)}</h1>"
        f'<svg width="{width}" height="{height}"><defs>{head}</defs>{"".join(parts)}</svg></html>\n'
    )


def _svg_line(text: str, source: int, target: int, y: int, left: int, column: int, width: int) -> str:
    words = html.escape(text)
    if source < 0:
        return f'<text x="{(left + width) // 2}" y="{y}" class="fault">{words}</text>'
    x = left + column * source + column // 2
    if source == target:
        return f'<text x="{x}" y="{y}" class="state">{words}</text>'
    end = left + column * target + column // 2
    return (
        f'<line x1="{x}" y1="{y}" x2="{end}" y2="{y}" class="arrow"/>'
        f'<text x="{(x + end) // 2}" y="{y - 3}">{words}</text>'
    )
