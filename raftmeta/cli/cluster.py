"""Commands on the cluster: status, hash, transfer."""

from __future__ import annotations

import sys
import time
from typing import Any

import click

import raftmeta
from raftmeta.cli.session import NO, NOT_EXECUTED, Session, fail, fates, pass_session, plain

_HASH_TRIES_S = 0.05


def statuses(session: Session) -> list[tuple[str, raftmeta.NodeStatus | None, str]]:
    """(endpoint, status, error) of every address in the URL; each node answers for itself."""
    found: list[tuple[str, raftmeta.NodeStatus | None, str]] = []
    for url in session.endpoints():
        try:
            with session.client_of(url) as client:
                found.append((url, client.status(timeout_s=session.timeout_s), ""))
        except raftmeta.ConfigError:
            raise
        except (raftmeta.RaftmetaError, OSError) as error:
            found.append((url, None, " ".join(str(error).split()) or type(error).__name__))
    return found


@click.command()
@pass_session
def status(session: Session) -> None:
    """Show every node of the URL, other members and observers: role, term, log, lag behind the leader, version.

    Exit code 1: a node of the URL does not answer. 3: no node answers.
    """
    with fates():
        answers = statuses(session)
    furthest = max((status.committed for _, status, _ in answers if status), default=0)
    rows = [_status_row(url, status, error, furthest) for url, status, error in answers]
    told = [status for _, status, _ in answers if status]
    rows += _unasked(told) + _observers(told)
    if session.is_json:
        session.show([plain(status) if status else {"endpoint": url, "error": error} for url, status, error in answers])
    else:
        session.show_table(rows)
    missing = sum(status is None for _, status, _ in answers)
    if missing:
        sys.exit(NOT_EXECUTED if missing == len(answers) else NO)


def _status_row(url: str, status: raftmeta.NodeStatus | None, error: str, furthest: int) -> dict[str, Any]:
    endpoint = url.partition("://")[2]
    if status is None:
        return dict.fromkeys(_STATUS_COLUMNS, "") | {"endpoint": endpoint, "state": error}
    return {
        "endpoint": endpoint,
        "name": status.name,
        "state": status.state if status.is_ready else f"{status.state}, not ready",
        "member": next((one.role for one in status.members if one.is_self), ""),
        "role": status.role,
        "term": status.term,
        "leader": status.leader,
        "committed": status.committed,
        "applied": status.applied,
        "lag": max(0, furthest - status.applied),
        "revision": status.revision,
        "keys": status.keys,
        "level": status.feature_level,
        "version": status.version,
    }


def _unasked(statuses: list[raftmeta.NodeStatus]) -> list[dict[str, Any]]:
    """Members at none of the addresses, as the answering nodes see them."""
    names = {status.name for status in statuses}
    seen = [one for status in statuses for one in status.members if one.role and one.name not in names]
    rows = {}
    for one in seen:
        is_connected = any(other.is_connected for other in seen if other.id == one.id)
        rows[one.id] = dict.fromkeys(_STATUS_COLUMNS, "") | {
            "endpoint": one.address,
            "name": one.name,
            "state": "not asked, connected" if is_connected else "not asked, not connected",
            "member": one.role,
        }
    return list(rows.values())


def _observers(statuses: list[raftmeta.NodeStatus]) -> list[dict[str, Any]]:
    """Observers at none of the addresses, as their feeders see them."""
    names = {status.name for status in statuses}
    return [
        dict.fromkeys(_STATUS_COLUMNS, "")
        | {
            "name": one.name,
            "state": f"not asked, fed by {one.feeder or 'a node that left'}",
            "role": "observer",
            "lag": one.lag,
        }
        for one in raftmeta.ObserverStatus.merged(statuses)
        if one.name not in names
    ]


_STATUS_COLUMNS = (
    "endpoint",
    "name",
    "state",
    "member",
    "role",
    "term",
    "leader",
    "committed",
    "applied",
    "lag",
    "revision",
    "keys",
    "level",
    "version",
)


@click.command("hash")
@pass_session
def hash_(session: Session) -> None:
    """Compare the state hashes of all nodes of the URL at one log index. Exit code 1: they differ. 3: no answer."""
    end = time.monotonic() + session.timeout_s
    with fates():
        while True:
            answers = statuses(session)
            applied = {status.applied for _, status, _ in answers if status}
            if len(applied) <= 1 or time.monotonic() > end:
                break
            time.sleep(_HASH_TRIES_S)  # writes go on: nodes are rarely at the same index at once
    missing = [url for url, status, _ in answers if status is None]
    session.show_table(
        [
            {"name": status.name, "applied": status.applied, "state_hash": status.state_hash}
            for _, status, _ in answers
            if status
        ]
    )
    if missing:
        fail(f"no answer from {', '.join(missing)}", NOT_EXECUTED if len(missing) == len(answers) else NO)
    if len(applied) > 1:
        fail(f"the nodes did not stand at one index within {session.timeout_s:g} s; try again with less load", NO)
    if len({status.state_hash for _, status, _ in answers if status}) > 1:
        fail("the states differ: stop writing and see docs/operations.md", NO)


@click.command()
@click.argument("to", required=False)
@pass_session
def transfer(session: Session, to: str | None) -> None:
    """Hand the leadership to the member TO, or to the most advanced one."""
    with session.client() as client:
        client.transfer(to, timeout_s=session.timeout_s)
        session.show({"transferred": True}, "handed over")


COMMANDS = (status, hash_, transfer)
