"""raftmeta audit: read and check an audit trail, without a node (docs/security.md "Audit")."""

from __future__ import annotations

import datetime
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from raftmeta.cli.session import Session, fates, pass_session

REFUSED = 1
_OPERATION_FIELDS = ("operation", "audit")

_folder = click.argument("folder", type=click.Path(path_type=Path))


@click.group()
def audit() -> None:
    """Audit trails: who asked a node for what, and what came of it."""


@audit.command()
@_folder
@click.option(
    "--key-file", "key_files", multiple=True, metavar="FILE", help="The secret of the chain; may be repeated."
)
@click.option("--open", "may_be_open", is_flag=True, help="Accept a trail without a closing line, as after a kill.")
@click.option("--expect", default="", metavar="NUMBER:CHAIN", help="A line of which somebody kept number and chain.")
@pass_session
def verify(session: Session, folder: Path, key_files: tuple[str, ...], may_be_open: bool, expect: str) -> None:
    """Check every line in FOLDER: none was changed, added, removed or moved. Exit code 1 names file and line if not.

    Keep the number and the chain that it prints in another place: with --expect they show whether all was made anew.
    """
    from raftmeta.security.audit import read_key
    from raftmeta.security.audit_trail import verify as verify_trail

    with fates():
        keys = [read_key(path) for path in key_files]
        found = verify_trail(folder, keys=keys, may_be_open=may_be_open, expected=expect)
    facts = asdict(found)
    words = [_words(one) for one in facts["problems"]]
    notes = [f"note: {_words(one)}" for one in facts["notes"]]
    state = "a node writes it" if found.is_running else "closed" if found.is_closed else "open"
    told = f"{found.lines} lines in {found.files} files, up to {found.number}:{found.chain} ({state})"
    verdict = [*words, *notes, f"{'not whole' if words else 'whole'}: {told}"]
    session.show({**facts, "is_whole": found.is_whole}, "\n".join(verdict))
    if not found.is_whole:
        raise SystemExit(REFUSED)


def _words(problem: dict[str, Any]) -> str:
    place = f"{problem['file']}:{problem['line']}" if problem["line"] else problem["file"]
    return f"{place}: {problem['reason']}"


@audit.command()
@_folder
@click.option("--principal", metavar="NAME", help="Only lines of this principal.")
@click.option("--operation", metavar="NAME", help="Only this operation, also inside transactions.")
@click.option("--since", metavar="TIME", help="Only lines from this time on: 2026-11-24 or 2026-11-24T12:00, in UTC.")
@click.option("--verdict", metavar="WORD", help="Only this verdict: ok, denied, or the name of an error.")
@pass_session
def show(
    session: Session,
    folder: Path,
    principal: str | None,
    operation: str | None,
    since: str | None,
    verdict: str | None,
) -> None:
    """Print lines in FOLDER, oldest first. It checks nothing: `audit verify` does."""
    from raftmeta.security.audit_trail import lines_of

    begin = _time(since) if since is not None else ""
    with fates():
        for path, at, line in lines_of(folder):
            if line is None:
                click.echo(f"{path.name}:{at}: no line of a trail", err=True)
                continue
            facts = line.facts
            if facts.get("time", "") < begin or (principal is not None and facts.get("principal") != principal):
                continue
            if (operation is not None and operation not in _operations(facts)) or (
                verdict is not None and facts.get("verdict") != verdict
            ):
                continue
            click.echo(json.dumps(facts) if session.is_json else _told(facts))


def _operations(facts: dict[str, Any]) -> set[str]:
    named = {str(facts[name]) for name in _OPERATION_FIELDS if name in facts}
    return named | {str(one.get("operation")) for one in facts.get("operations", ())}


def _told(facts: dict[str, Any]) -> str:
    """A line for people: time, number, who, what; then the other facts, without the chain."""
    first = ("time", "number", "principal", "operation", "audit", "verdict")
    rest = {name: fact for name, fact in facts.items() if name not in (*first, "chain", "node", "cluster")}
    words = [str(facts[name]) for name in first if facts.get(name) not in (None, "")]
    return " ".join([*words, *(f"{name}={_fact(fact)}" for name, fact in rest.items() if fact != "")])


def _fact(fact: object) -> str:
    return fact if isinstance(fact, str) else json.dumps(fact, separators=(",", ":"))


def _time(text: str) -> str:
    """As lines have it, to be compared as text."""
    try:
        time = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is no time such as 2026-11-24T12:00", param_hint="--since") from None
    time = time.replace(tzinfo=datetime.UTC) if time.tzinfo is None else time.astimezone(datetime.UTC)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


COMMANDS = (audit,)
