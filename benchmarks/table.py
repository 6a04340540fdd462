"""Rows of a report as text: for a terminal, and as cells of other tables."""

from __future__ import annotations

from typing import Any


def figure(value: float) -> str:
    """As many digits as a reader needs: 183,000, 2,750, 12.3, 0.342."""
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        digits = 3 - len(str(int(abs(value))))
        return f"{round(value, digits):,.0f}"
    return f"{value:.3g}"


def spread(row: dict[str, Any]) -> str:
    """Least and greatest of the rounds, if there were several."""
    return f"{figure(row['least'])} to {figure(row['greatest'])}" if row["rounds"] > 1 else ""


def verdicts(row: dict[str, Any]) -> str:
    """Each target of the row, in words."""
    targets = row.get("targets", [])
    return "; ".join(f"{one['text']}: {'reached' if one['reached'] else 'NOT reached'}" for one in targets)


def details(row: dict[str, Any]) -> str:
    """Other figures of the row; the spread of a ratio stands in the JSON."""
    shown = {name: value for name, value in row.get("details", {}).items() if not name.endswith(("least", "greatest"))}
    return ", ".join(f"{name} {figure(value)}" for name, value in shown.items())


def lines_of(rows: list[dict[str, Any]]) -> list[str]:
    """A row to a line."""
    width = max(len(row["name"]) for row in rows)
    lines = []
    for row in rows:
        measured = f"{row['name']:{width}}  {figure(row['value']):>9}{row['unit']:<12} {spread(row):22}"
        lines.append(f"{measured} {details(row)}  {verdicts(row)}".rstrip())
    return lines
