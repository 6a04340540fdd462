"""The promises of a back end about crashes of its servers, broken connections, and time: checked, not believed.

Commands stop and start the servers (Kit.servers): all of them at once, as kill -9 or a power cut does it. A promise
that no command can check is "not run", and the report says what it would need.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from raftmeta import NotExecuted, OutcomeUnknown, RaftmetaError
from raftmeta.conformance.kit import CheckFailed, Kit, Told, check, equal, eventually
from raftmeta.conformance.waiting import BACK_S, is_back

AREA = "promises"
SLACK_S = 1.0  # for seeing a member go
PUTS = 200


@check(
    AREA, "what was answered is there for another process after its writer was killed", needs="durable", processes=True
)
def _(kit: Kit) -> None:
    key, party = kit.name("key"), kit.party()
    party.ask("put", key, "kept")
    party.kill()
    stored = kit.first.storage.get(key)
    equal(stored.data if stored else None, b"kept", "what the killed process had put")


@check(AREA, "what was answered survives a crash of every server at once", needs="durable", servers=True)
def _(kit: Kit) -> None:
    keys = [kit.name("key") for _ in range(20)]
    for number, key in enumerate(keys):
        kit.first.storage.put(key, str(number))
    kit.first.storage.update(keys[0], "new")
    kit.first.storage.delete(keys[1])
    kit.crash_servers()
    is_back(kit)
    found = [kit.second_or_first.storage.get(key) for key in keys]
    wanted: list[bytes | None] = [b"new", None, *(str(number).encode() for number in range(2, 20))]
    equal([one.data if one else None for one in found], wanted, "what is stored after the crash")


@check(AREA, "epochs grow over a crash of every server at once", needs="epochs", servers=True)
def _(kit: Kit) -> None:
    name = kit.name("service")
    group, election = kit.first.group(name), kit.first.election(name)
    epochs = [group.join("a").epoch]
    group.leave("a")
    election.nominate("a")
    leader = election.leader()
    equal(leader is not None, True, "it leads")
    election.resign("a")
    kit.crash_servers()
    is_back(kit)
    epochs.append(group.join("a", timeout_s=BACK_S).epoch)
    equal(epochs, sorted(set(epochs)), "epochs of the member")
    election.nominate("a", timeout_s=BACK_S)
    after = election.leader()
    equal(bool(leader and after and after.epoch > leader.epoch), True, f"{after} after {leader}")


@check(AREA, "epochs grow over the crash of their holder", needs="epochs", processes=True)
def _(kit: Kit) -> None:
    name, epochs = kit.name("group"), []
    for number in range(2):
        party = kit.party(kit.name("owner"))
        epochs.append(party.ask("join", name, f"a{number}"))
        party.kill()
    epochs.append(kit.first.group(name).join("b").epoch)
    equal(epochs, sorted(set(epochs)), "epochs")


@check(AREA, "a call of unknown outcome is gone on with, and made at most once", needs="exactly_once", servers=True)
def _(kit: Kit) -> None:
    """Only this writer puts the keys, so KeyExists would mean that its own write was made twice."""
    fates: dict[str, str] = {}
    tickets: dict[str, Any] = {}
    has_begun, name = threading.Event(), kit.name("key")

    def put_all() -> None:
        for number in range(PUTS):
            key = f"{name}/{number}"
            try:
                kit.first.storage.put(key, "once")
                fates[key] = "made"
            except NotExecuted:
                fates[key] = "not made"
            except OutcomeUnknown as error:
                fates[key] = "unknown"
                tickets[key] = getattr(error, "ticket", None)
            except RaftmetaError as error:
                fates[key] = repr(error)
            if number == 5:
                has_begun.set()

    writer = threading.Thread(target=put_all)
    writer.start()
    has_begun.wait(BACK_S)
    kit.crash_servers()
    is_back(kit)
    writer.join(PUTS * BACK_S)
    for key, ticket in tickets.items():
        if ticket is None:
            raise CheckFailed(f"{key}: OutcomeUnknown without a ticket: nobody can go on with it")
        try:
            ticket.result(BACK_S)
            fates[key] = "made"
        except NotExecuted:
            fates[key] = "not made"
        except OutcomeUnknown:
            pass  # told so honestly, after the session ended
    odd = {key: fate for key, fate in fates.items() if fate not in ("made", "not made", "unknown")}
    equal(odd, {}, "fates that no single execution explains")
    for key, fate in fates.items():
        is_there = kit.first.storage.get(key) is not None
        if fate != "unknown":
            equal(is_there, fate == "made", f"{key}, which was {fate}, is there")


@check(
    AREA, "a break of all connections leads to no gap and no coalesced call", needs="resumable_watches", servers=True
)
def _(kit: Kit) -> None:
    name, told = kit.name("key"), Told()
    kit.first.listeners.add_value_change_listener(name, told)
    kit.first.storage.put(name, "0")
    told.until(lambda change: change.value == b"0", "the change before the crash")
    kit.crash_servers()
    is_back(kit)
    for number in range(1, 11):
        kit.second_or_first.storage.update(name, str(number))
    told.until(lambda change: change.value == b"10", "the last change after the crash")
    equal([change.value for change in told.changes], [str(n).encode() for n in range(11)], "the values that were told")
    equal([change for change in told.changes if change.coalesced], [], "calls that were coalesced")


@check(
    AREA, "a killed member is gone in its time to live and what was promised", needs="ttl_precision_s", processes=True
)
def _(kit: Kit) -> None:
    name = kit.name("group")
    group, party = kit.first.group(name), kit.party()
    party.ask("join", name, "a")
    eventually(lambda: group.membership_list() == {"a"}, "joined")
    ttl_s = max(party.ask("remaining_s", "a") for _ in _during(2.0)) / 0.9  # less a margin for clocks that drift
    if ttl_s <= 0:
        raise CheckFailed("remaining_s() is 0 for a member that is held")
    party.kill()
    killed_s = time.monotonic()
    eventually(lambda: not group.membership_list(), "gone", timeout_s=3 * ttl_s + 60)
    took_s = time.monotonic() - killed_s
    promised_s = kit.capabilities.ttl_precision_s
    if took_s > ttl_s + promised_s + SLACK_S:
        raise CheckFailed(
            f"gone {took_s:.1f} s after it was killed, with {ttl_s:.1f} s to live and {promised_s:g} s promised"
        )


def _during(seconds: float) -> Any:
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        yield
        time.sleep(0.05)
