"""raftmeta tck: the conformance suite of back ends, and its matrix."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import asdict

import click

import raftmeta
from raftmeta.cli.session import NO, Session, fates, pass_session
from raftmeta.conformance import Outcome, run

_MARKS = {"passed": "ok", "failed": "FAILED", "not promised": "-", "not run": "?"}


@click.command()
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@pass_session
def tck(session: Session, urls: tuple[str, ...]) -> None:
    """Run the conformance suite on the back end behind the URLs, and print what it promises and keeps.

    Give two URLs or more of one cluster: many contracts are between two parties. A raft:// URL counts as two. Exit code
    1: a check failed.
    """
    shared = [url for url in urls if url.startswith(("raft://", "raft+unix://"))]
    parties = [*urls, *urls] if len(urls) == 1 and shared else list(urls)

    def tell(outcome: Outcome) -> None:
        if not session.is_json:
            why = f"  ({outcome.why})" if outcome.why else ""
            click.echo(f"{_MARKS[outcome.state]:>6}  {outcome.check.name}{why}")

    with fates():
        party_url = shared[0] if shared else None
        capabilities, found = run(parties, party_url=party_url, has_owners=bool(shared), on_outcome=tell)
    counts = Counter(outcome.state for outcome in found)
    if session.is_json:
        checks = [{"check": one.check.name, "state": one.state, "why": one.why} for one in found]
        session.show({"capabilities": _finite(capabilities), "counts": dict(counts), "checks": checks})
    else:
        session.show_table([{"capability": name, "promised": value} for name, value in _finite(capabilities).items()])
        click.echo(", ".join(f"{count} {state}" for state, count in sorted(counts.items())))
    if counts["failed"]:
        sys.exit(NO)


def _finite(capabilities: raftmeta.Capabilities) -> dict[str, bool | float | None]:
    """JSON has no infinity."""
    return {name: None if value == float("inf") else value for name, value in asdict(capabilities).items()}


COMMANDS = (tck,)
