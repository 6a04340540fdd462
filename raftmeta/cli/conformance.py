"""raftmeta tck: the conformance suite of back ends, and its matrix."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import asdict

import click

import raftmeta
from raftmeta.cli.session import NO, Session, fates, pass_session
from raftmeta.conformance import Outcome, Servers, run

_MARKS = {"passed": "ok", "failed": "FAILED", "not promised": "-", "not run": "?"}


@click.command()
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@click.option("--aio", "is_aio", is_flag=True, help="Check the asyncio face of the back end.")
@click.option("--party-url", metavar="URL", help="For processes that are killed and frozen; several use it at once.")
@click.option("--stop", metavar="CMD", help="A shell command that kills all servers at once, and returns then.")
@click.option("--start", metavar="CMD", help="A shell command that starts them again in the same places.")
@pass_session
def tck(
    session: Session,
    urls: tuple[str, ...],
    is_aio: bool,
    party_url: str | None,
    stop: str | None,
    start: str | None,
) -> None:
    """Run the conformance suite on the back end behind the URLs, and print what it promises and keeps.

    Give two URLs or more of one cluster: many contracts are between two parties. A raft:// URL counts as two. Exit code
    1: a check failed. A check that is marked "?" did not run, and says what it needs.
    """
    if (stop is None) != (start is None):
        raise click.UsageError("--stop and --start belong together")
    servers = None if stop is None or start is None else Servers(start=start, stop=stop)
    shared = [url for url in urls if url.startswith(("raft://", "raft+unix://"))]
    parties = [*urls, *urls] if len(urls) == 1 and shared else list(urls)

    def tell(outcome: Outcome) -> None:
        if not session.is_json:
            why = f"  ({outcome.why})" if outcome.why else ""
            click.echo(f"{_MARKS[outcome.state]:>6}  {outcome.check.name}{why}")

    with fates():
        party = party_url or (shared[0] if shared else None)
        capabilities, found = run(
            parties,
            party_url=party,
            has_owners=party is not None and party.startswith(("raft://", "raft+unix://")),
            servers=servers,
            is_aio=is_aio,
            on_outcome=tell,
        )
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
