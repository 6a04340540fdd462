"""The outcome of the conformance suite as a report: kept as JSON, shown as tables, one back end beside another.

It decides what becomes of a promise: "kept" when it is declared and every check of it passed, "FAILED" when one failed,
"not shown" when one could not run, "-" when it is not declared. It holds no URL, because a URL may have a password.
"""

from __future__ import annotations

import html
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Protocol

from raftmeta import Capabilities, ConfigError, __version__
from raftmeta.conformance.kit import Check

__all__ = ["Found", "Report", "html_of", "matrix_of", "text_of"]

FORMAT = 1
MARKS = {"passed": "ok", "failed": "FAILED", "not promised": "-", "not run": "?"}
CONTRACTS = "contract: "  # what every back end keeps, beside its promises


class Ended(Protocol):
    """An outcome (conformance.Outcome)."""

    @property
    def check(self) -> Check: ...
    @property
    def state(self) -> str: ...
    @property
    def why(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Found:
    """The outcome of one check. state: "passed", "failed", "not promised" or "not run"; why: where it did not pass."""

    area: str
    sentence: str
    promise: str
    state: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """One back end by one of its faces. name: its scheme; face: "blocking" or "asyncio"."""

    name: str
    face: str
    capabilities: Capabilities
    checks: tuple[Found, ...]
    version: str = __version__

    @classmethod
    def of(cls, name: str, capabilities: Capabilities, outcomes: Iterable[Ended], *, is_aio: bool = False) -> Report:
        """The report of what run returned."""
        checks = tuple(
            Found(one.check.interface, one.check.sentence, one.check.needs, one.state, one.why) for one in outcomes
        )
        return cls(name, "asyncio" if is_aio else "blocking", capabilities, checks)

    @property
    def title(self) -> str:
        return self.name if self.face == "blocking" else f"{self.name} ({self.face})"

    def counts(self) -> Counter[str]:
        return Counter(check.state for check in self.checks)

    def promise(self, name: str) -> str:
        """The fate of a capability; ttl_precision_s with its seconds."""
        value = getattr(self.capabilities, name)
        is_declared = value != float("inf") if name == "ttl_precision_s" else bool(value)
        if not is_declared:
            return "-"
        states = {check.state for check in self.checks if check.promise == name}
        kept = "FAILED" if "failed" in states else "kept" if states == {"passed"} else "not shown"
        return f"{kept} ({value:g} s)" if name == "ttl_precision_s" else kept

    def contract(self, area: str) -> str:
        """The fate of the checks of an area that need no capability: "16 of 17", or FAILED."""
        states = [check.state for check in self.checks if check.area == area and not check.promise]
        wanted = [state for state in states if state != "not promised"]
        if "failed" in wanted:
            return f"FAILED {wanted.count('failed')} of {len(wanted)}"
        return f"{wanted.count('passed')} of {len(wanted)}"

    def areas(self) -> list[str]:
        """In the order in which the suite runs them."""
        return list(dict.fromkeys(check.area for check in self.checks if not check.promise))

    # --- JSON ---------------------------------------------------------------------------------------------------------
    def to_json(self) -> str:
        """Read back by from_json. JSON has no infinity: null stands for a time that is not promised."""
        return json.dumps(
            {
                "format": FORMAT,
                "backend": self.name,
                "face": self.face,
                "raftmeta": self.version,
                "capabilities": finite(self.capabilities),
                "counts": dict(self.counts()),
                "checks": [asdict(check) for check in self.checks],
            },
            indent=1,
        )

    @classmethod
    def from_json(cls, text: str) -> Report:
        """Raises ConfigError for what is no report."""
        try:
            told: dict[str, Any] = json.loads(text)
            if told["format"] != FORMAT:
                raise ConfigError(f"report: has format {told['format']!r}, not {FORMAT}", field="report")
            declared: Mapping[str, Any] = told["capabilities"]
            given: dict[str, Any] = {name: float("inf") if value is None else value for name, value in declared.items()}
            known = {field.name for field in fields(Capabilities)}
            capabilities = Capabilities(**{name: value for name, value in given.items() if name in known})
            checks = tuple(Found(**check) for check in told["checks"])
            return cls(told["backend"], told["face"], capabilities, checks, told["raftmeta"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, ConfigError):
                raise
            raise ConfigError(f"report: is none of raftmeta tck ({error!r})", field="report") from None

    @classmethod
    def read(cls, path: str | Path) -> Report:
        """Raises ConfigError, OSError."""
        return cls.from_json(Path(path).read_text())


def finite(capabilities: Capabilities) -> dict[str, bool | float | None]:
    """The capabilities as JSON can have them."""
    return {name: None if value == float("inf") else value for name, value in asdict(capabilities).items()}


# --- tables -----------------------------------------------------------------------------------------------------------
def matrix_of(reports: Sequence[Report]) -> list[dict[str, str]]:
    """A row for each promise and for each area of the contracts, a column for each back end."""
    titles = _titles(reports)
    rows = [
        {"promise": field.name, **{title: report.promise(field.name) for title, report in titles.items()}}
        for field in fields(Capabilities)
    ]
    areas = dict.fromkeys(area for report in reports for area in report.areas())
    rows += [
        {"promise": CONTRACTS + area, **{title: report.contract(area) for title, report in titles.items()}}
        for area in areas
    ]
    return rows


def _titles(reports: Sequence[Report]) -> dict[str, Report]:
    """A name for each column; a number behind those that come again."""
    titles: dict[str, Report] = {}
    for report in reports:
        number = sum(other.title == report.title for other in titles.values())
        titles[report.title if not number else f"{report.title} {number + 1}"] = report
    return titles


def text_of(reports: Sequence[Report]) -> str:
    """The matrix as a table of Markdown."""
    rows = matrix_of(reports)
    columns = list(rows[0])
    lines = [" | ".join(columns), " | ".join("---" for _ in columns)]
    lines += [" | ".join(row[column] for column in columns) for row in rows]
    return "".join(f"| {line} |\n" for line in lines)


_STYLE = """
body { font: 15px/1.5 sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em; color: #222; background: #fff }
table { border-collapse: collapse; margin: 1em 0 2em }
th, td { text-align: left; padding: .25em .8em; border-bottom: 1px solid #ddd; vertical-align: top }
.passed, .kept { color: #176b2c } .failed { color: #b3261e; font-weight: bold } .none { color: #767676 }
@media (prefers-color-scheme: dark) {
 body { color: #ddd; background: #181818 } th, td { border-color: #444 }
 .passed, .kept { color: #7bd88f } .failed { color: #ff8a80 } .none { color: #999 }
}
"""


def html_of(reports: Sequence[Report]) -> str:
    """One page that needs no other file: the matrix, then every check of every back end."""
    rows = matrix_of(reports)
    head = "".join(f"<th scope=col>{html.escape(column)}</th>" for column in rows[0])
    body = "".join(
        f"<tr>{''.join(_cell(text, is_head=not n) for n, text in enumerate(row.values()))}</tr>\n" for row in rows
    )
    parts = [f"<h1>Promises of back ends</h1>\n<table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>"]
    for title, report in _titles(reports).items():
        counts = ", ".join(f"{count} {state}" for state, count in sorted(report.counts().items()))
        parts.append(
            f"<h2>{html.escape(title)}</h2>\n<p>raftmeta {html.escape(report.version)}: {html.escape(counts)}</p>"
        )
        lines = "".join(
            f"<tr>{_cell(MARKS[check.state])}<td>{html.escape(check.area)}: {html.escape(check.sentence)}</td>"
            f"<td>{html.escape(check.why)}</td></tr>\n"
            for check in report.checks
        )
        parts.append(f"<table><tbody>\n{lines}</tbody></table>")
    page = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>raftmeta tck</title>'
        f"<style>{_STYLE}</style></head><body>\n{page}\n</body></html>\n"
    )


def _cell(text: str, *, is_head: bool = False) -> str:
    if is_head:
        return f"<th scope=row>{html.escape(text)}</th>"
    kind = "failed" if text.startswith("FAILED") else "none" if text in ("-", "?") or text.startswith("not") else "kept"
    return f'<td class="{kind}">{html.escape(text)}</td>'
