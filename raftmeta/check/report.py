"""A verdict for people and for programs: text, JSON, and one HTML page that needs nothing else.

It decides how things look. Everything that came from a history is escaped; the page loads nothing and runs no script.
"""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from raftmeta.check.checker import Checked
from raftmeta.check.explain import Counterexample, WindowOperation
from raftmeta.check.history import Fault, Nothing

__all__ = ["counterexample_text", "to_html", "to_json", "to_text"]

QUARANTINED_MAX = 20  # shown; more are counted
NOT_OK_MAX = 20
TEXT_MAX = 120  # characters of a value that are shown


# --- text -------------------------------------------------------------------------------------------------------------
def to_text(checked: Checked) -> str:
    """A few lines: the verdict, what was not ok, and the counterexample."""
    lines = [
        f"{checked.verdict}: {checked.operations} operations in {checked.components} components as {checked.model}, "
        f"{checked.seconds:.3f} s"
    ]
    if checked.is_empty:
        lines.append("  the history has no events, so nothing was checked")
    lines += [f"  {count} decided by {name}" for name, count in checked.engines.items() if name != "none"]
    for one in checked.not_ok[:NOT_OK_MAX]:
        limit = f": {_why(one.limit)}" if one.limit else ""
        lines.append(f"  {one.verdict}: keys {_short(', '.join(one.keys))}, {one.operations} operations{limit}")
    if (hidden := len(checked.not_ok) - NOT_OK_MAX) > 0:
        lines.append(f"  and {hidden} more components that are not ok")
    if checked.quarantined:
        lines.append(f"{len(checked.quarantined)} events make no sense, and what they belong to was not checked:")
        lines += [f"  row {one.row}: {one.reason}: {_short(one.raw)}" for one in checked.quarantined[:QUARANTINED_MAX]]
    if checked.counterexample is not None:
        lines += ["", counterexample_text(checked.counterexample)]
    return "\n".join(lines)


def _why(limit: str) -> str:
    if limit == "violation":
        return "not searched to the end, since another component has no linearization"
    return f"limit of {limit} reached"


def counterexample_text(example: Counterexample) -> str:
    """The window, the states that were possible, and the operation that fits none of them."""
    return "\n".join(_counterexample_lines(example))


def _counterexample_lines(example: Counterexample) -> list[str]:
    lines = [f"no linearization of keys {_short(', '.join(example.keys))}"]
    if example.states_before:
        lines.append(f"possible states before the window: {' | '.join(map(_short, example.states_before))}")
    lines += [f"{'>' if one.is_culprit else ' '} {_operation_line(one)}" for one in example.operations]
    if example.culprit is not None:
        lines.append(f"possible states when the operation marked > completed: {_states(example)}")
        lines.append("it fits none of them")
    if example.left_out:
        lines.append(f"({example.left_out} more operations of the window do not matter)")
    if not example.is_shortened:
        lines.append("(the search for a shorter window took too long)")
    return lines


def _states(example: Counterexample) -> str:
    return " | ".join(map(_short, example.states_at_culprit)) or "none"


def _operation_line(one: WindowOperation) -> str:
    end = "..." if one.completed_seq is None else str(one.completed_seq)
    return f"[{one.called_seq}, {end}] process {one.process}: {_what(one)}"


def _what(one: WindowOperation) -> str:
    key = "" if one.key is Nothing else f" {_value(one.key)}"
    arguments = "" if one.arguments is Nothing else f" {_value(one.arguments)}"
    result = "" if one.result is Nothing else f" -> {_value(one.result)}"
    return f"{one.operation}{key}{arguments}{result if one.completed_seq is not None else ' -> unknown'}"


def _value(value: Any) -> str:
    return _short(json.dumps(value, ensure_ascii=False))


def _short(text: str) -> str:
    return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 1] + "…"


# --- JSON -------------------------------------------------------------------------------------------------------------
def to_json(checked: Checked) -> dict[str, Any]:
    """Everything in a Checked, as JSON has it; values that were not given are left out."""
    told: dict[str, Any] = _without_nothing(asdict(checked))
    return told


def _without_nothing(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nothing(inner) for name, inner in value.items() if inner is not Nothing}
    if isinstance(value, list | tuple):
        return [_without_nothing(inner) for inner in value]
    return value


# --- HTML -------------------------------------------------------------------------------------------------------------
WIDTH, LABEL_WIDTH, ROW_HEIGHT, BAND_HEIGHT, BAR_WIDTH_MIN = 1100, 110, 34, 18, 4
STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em; color: #1c1c1c; background: #fff; }
h1 { font-size: 1.3em; } h2 { font-size: 1.1em; } svg { max-width: 100%; height: auto; }
.ok { color: #1b6e3c; } .violation { color: #b3261e; } .unknown { color: #8a5a00; }
td, th { text-align: left; padding: 0.1em 1em 0.1em 0; vertical-align: top; } code { background: #f2f2f2; }
.bar { fill: #c9dcf5; stroke: #4a77b4; } .culprit { fill: #f7c7c3; stroke: #b3261e; stroke-width: 2; }
.crashed { fill: #eee; stroke: #777; stroke-dasharray: 4 3; } .band { fill: #f0c36d; opacity: 0.45; }
text { font: 12px system-ui, sans-serif; } .rule { stroke: #ddd; }
"""


def to_html(checked: Checked, *, title: str = "", faults: Sequence[Fault] = ()) -> str:
    """One page: the verdict, the window as a timeline with the faults under way, and the events in quarantine."""
    name = html.escape(title or "Linearizability")
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{name}</title><style>{STYLE}</style></head><body>',
        f'<h1>{name}: <span class="{checked.verdict}">{checked.verdict}</span></h1>',
        f"<p>{checked.operations} operations ({checked.failed} more were not executed) in {checked.components} "
        f"components, checked as <code>{html.escape(checked.model)}</code> in {checked.seconds:.3f} s.</p>",
        _table(["verdict", "components"], [[name, str(count)] for name, count in checked.verdicts.items()]),
        _table(["engine", "components"], [[name, str(count)] for name, count in checked.engines.items()]),
    ]
    if checked.is_empty:
        parts.append("<p>The history has no events, so nothing was checked.</p>")
    if checked.counterexample is not None:
        parts += _counterexample_parts(checked.counterexample, faults)
    if checked.quarantined:
        shown = checked.quarantined[:QUARANTINED_MAX]
        parts.append(f"<h2>{len(checked.quarantined)} events make no sense</h2>")
        parts.append(_table(["row", "reason", "event"], [[str(one.row), one.reason, _short(one.raw)] for one in shown]))
    parts.append("</body></html>")
    return "\n".join(parts) + "\n"


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _counterexample_parts(example: Counterexample, faults: Sequence[Fault]) -> list[str]:
    return [
        f"<h2>No linearization of <code>{html.escape(_short(', '.join(example.keys)))}</code></h2>",
        f"<p>Possible states before the window: <code>{html.escape(' | '.join(example.states_before) or '?')}</code>. "
        f"When the red operation completed: <code>{html.escape(_states(example))}</code>. It fits none of them.</p>",
        _timeline(example.operations, faults),
        f"<pre>{html.escape(counterexample_text(example))}</pre>",
    ]


def _timeline(operations: Sequence[WindowOperation], faults: Sequence[Fault]) -> str:
    """By time where every event has one, else by the order of the events, where faults have no place."""
    has_times = all(
        one.called_ns is not None and (one.completed_seq is None or one.completed_ns is not None) for one in operations
    )
    spans = [
        (one.called_ns, one.completed_ns) if has_times else (one.called_seq, one.completed_seq) for one in operations
    ]
    known = [end for span in spans for end in span if end is not None]
    low, high = min(known, default=0), max(known, default=1)
    margin = max((high - low) // 20, 1)
    low, high = low - margin, high + margin
    bands = [fault for fault in faults if fault.start_ns < high and fault.end_ns > low] if has_times else []
    processes = list(dict.fromkeys(one.process for one in operations))
    top = BAND_HEIGHT * len(bands) + 8
    height = top + ROW_HEIGHT * len(processes) + 8

    def x(moment: int) -> float:
        return LABEL_WIDTH + (WIDTH - LABEL_WIDTH) * (min(max(moment, low), high) - low) / (high - low)

    parts = [f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img" aria-label="timeline">']
    for row, fault in enumerate(bands):
        left, right = x(fault.start_ns), x(fault.end_ns)
        parts.append(f'<rect class="band" x="{left:.1f}" y="0" width="{right - left:.1f}" height="{height}"/>')
        parts.append(f'<text x="{left + 3:.1f}" y="{BAND_HEIGHT * row + 13}">{html.escape(fault.name)}</text>')
    for row, process in enumerate(processes):
        y = top + ROW_HEIGHT * row
        parts.append(f'<text x="0" y="{y + 20}">process {html.escape(str(process))}</text>')
        parts.append(f'<line class="rule" x1="0" x2="{WIDTH}" y1="{y + ROW_HEIGHT}" y2="{y + ROW_HEIGHT}"/>')
    for one, (start, end) in zip(operations, spans, strict=True):
        y = top + ROW_HEIGHT * processes.index(one.process) + 4
        left, right = x(start or 0), x(high if end is None else end)
        kind = "culprit" if one.is_culprit else "crashed" if end is None else "bar"
        what = html.escape(_what(one))
        parts.append(
            f'<g><title>{html.escape(_operation_line(one))}</title><rect class="{kind}" x="{left:.1f}" y="{y}" rx="4" '
            f'width="{max(right - left, BAR_WIDTH_MIN):.1f}" height="{ROW_HEIGHT - 10}"/>'
            f'<text x="{left + 5:.1f}" y="{y + 16}">{what}</text></g>'
        )
    return "\n".join([*parts, "</svg>"])
