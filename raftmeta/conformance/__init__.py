"""The conformance suite of back ends: every contract of the four interfaces as a check, run on any of them.

    report = run(["raft://127.0.0.1:7700", "raft://127.0.0.1:7701"])

A check whose capability the back end does not declare does not run ("not promised"); everything else must pass. So a
back end keeps exactly what it declares, and the report is a matrix of promises. It knows nothing of any back end.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import raftmeta
from raftmeta import Capabilities, ConfigError, connect
from raftmeta.conformance import coordination, election, faults, membership, one_server, promises, storage
from raftmeta.conformance.aio_kit import DrivenBackend, EventLoop
from raftmeta.conformance.kit import CHECKS, Check, CheckFailed, Kit, Servers
from raftmeta.conformance.report import Report, html_of, matrix_of, text_of

__all__ = [
    "CHECKS",
    "Capabilities",
    "Check",
    "CheckFailed",
    "Kit",
    "Outcome",
    "Report",
    "Servers",
    "html_of",
    "matrix_of",
    "outcome_of",
    "outcomes",
    "run",
    "text_of",
]

_AREAS = (
    membership,
    election,
    storage,
    coordination,
    faults,
    promises,
    one_server,
)  # importing them collects their checks


@dataclass(frozen=True, slots=True)
class Outcome:
    """state: "passed", "failed", "not promised", or "not run" (why tells what the check would need)."""

    check: Check
    state: str
    why: str = ""


def outcome_of(check: Check, kit: Kit) -> Outcome:
    """Run one check."""
    if not check.is_promised(kit.capabilities):
        return Outcome(check, "not promised", check.needs or f"declared: {check.lacks}")
    if check.parties > len(kit.backends):
        return Outcome(check, "not run", f"needs {check.parties} URLs of one cluster")
    if check.processes and kit.party_url is None:
        return Outcome(check, "not run", "needs a URL that several processes can use (--party-url)")
    if check.servers and (kit.servers is None or not kit.servers.can_crash):
        return Outcome(check, "not run", "needs commands that crash the servers (--stop, --start)")
    if check.one_server and (kit.servers is None or not kit.servers.can(check.one_server)):
        return Outcome(check, "not run", f"needs commands for one server (--{check.one_server}, --heal)")
    try:
        check.run(kit)
    except CheckFailed as failure:
        return Outcome(check, "failed", str(failure))
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        return Outcome(check, "failed", f"{error!r} in {place.name}, line {place.lineno}")
    finally:
        kit.end_parties()
    return Outcome(check, "passed")


def outcomes(kit: Kit, areas: Sequence[str] = ()) -> Iterator[Outcome]:
    """Run every check, one after another; areas: only those of these. Raises ConfigError: there is no such area."""
    known = dict.fromkeys(check.interface for check in CHECKS)
    for area in areas:
        if area not in known:
            raise ConfigError(f"area: {area!r} is none of {', '.join(known)}", field="area")
    for check in CHECKS:
        if not areas or check.interface in areas:
            yield outcome_of(check, kit)


def run(
    urls: Sequence[str],
    *,
    party_url: str | None = None,
    has_owners: bool = False,
    servers: Servers | None = None,
    is_aio: bool = False,
    plugin: str = "",
    areas: Sequence[str] = (),
    on_outcome: Callable[[Outcome], object] | None = None,
) -> tuple[Capabilities, list[Outcome]]:
    """Connect to every URL (of one cluster, each independent of the others) and run every check.

    party_url: for processes that are killed and frozen; it may be one of the URLs if several can use it at once.
    has_owners: its URL takes an option `owner`. servers: how to crash the servers that all of them talk to. is_aio:
    check the asyncio face, by the same checks. plugin: "module:object", the back end for these URLs; "": the one that
    is registered or installed. areas: only their checks; none: all.
    on_outcome: called with each outcome as soon as there is one. Raises the errors of connect.
    """
    if plugin:
        for url in urls:
            raftmeta.backends.register(url.partition("://")[0], plugin)
    with ExitStack() as stack:
        backends: list[Any]
        if is_aio:
            loop = EventLoop()
            stack.callback(loop.close)
            backends = [stack.enter_context(DrivenBackend(url, loop)) for url in urls]
        else:
            backends = [stack.enter_context(connect(url)) for url in urls]
        kit = Kit(backends, party_url=party_url, has_owners=has_owners, servers=servers, is_aio=is_aio, plugin=plugin)
        found = []
        for outcome in outcomes(kit, areas):
            found.append(outcome)
            if on_outcome is not None:
                on_outcome(outcome)
        return kit.capabilities, found
