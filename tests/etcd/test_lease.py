"""Leases, locks and elections of the etcd door, seen through the gateway."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.etcd.gateway import Gateway, Refused, Stream, b64, create, doors, events_of, unb64
from tests.processes.waiting import wait_until

WAIT_S = 30.0


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with doors(tmp_path_factory.mktemp("lease")) as (_, ports):
        yield ports["a"]


@pytest.fixture
def etcd(port: int) -> Iterator[Gateway]:
    with Gateway(port) as gateway:
        yield gateway


@pytest.fixture
def name(request: pytest.FixtureRequest) -> bytes:
    return str(request.node.name).encode()


# --- leases -----------------------------------------------------------------------------------------------------------
def test_a_lease_is_granted_with_a_chosen_id_or_the_given_one(etcd: Gateway) -> None:
    chosen = etcd.ask("lease/grant", TTL="60")
    assert (int(chosen["ID"]) > 0, chosen["TTL"]) == (True, "60")
    assert etcd.ask("lease/grant", TTL="60", ID="-77")["ID"] == "-77"
    with pytest.raises(Refused) as refused:
        etcd.ask("lease/grant", TTL="60", ID="-77")
    assert (refused.value.status, refused.value.code) == (400, 9)
    assert refused.value.message == "etcdserver: lease already exists"
    assert etcd.ask("lease/grant", TTL="0")["TTL"] == "2"
    with pytest.raises(Refused, match="too large lease TTL"):
        etcd.ask("lease/grant", TTL="9000000001")


def test_revoking_a_lease_deletes_its_keys_in_one_revision(port: int, etcd: Gateway, name: bytes) -> None:
    lease = etcd.ask("lease/grant", TTL="60")["ID"]
    for letter in (b"a", b"b"):
        etcd.put(name + letter, b"1", lease=lease)
    with Stream(port, "watch", create(name, name + b"\xff")) as stream:
        stream.take()
        revoked = etcd.ask("lease/revoke", ID=lease)
        events = events_of(stream.take())
    assert [(kind, key) for kind, key, _, _ in events] == [("DELETE", name + b"a"), ("DELETE", name + b"b")]
    assert {revision for _, _, _, revision in events} == {int(revoked["header"]["revision"])}
    with pytest.raises(Refused) as refused:
        etcd.ask("lease/revoke", ID=lease)
    assert (refused.value.status, refused.value.code) == (404, 5)
    assert refused.value.message == "etcdserver: requested lease not found"


def test_time_to_live_shows_what_is_left_and_the_keys(etcd: Gateway, name: bytes) -> None:
    lease = etcd.ask("lease/grant", TTL="600", ID="4242")["ID"]
    etcd.put(name, b"1", lease=lease)
    told = etcd.ask("lease/timetolive", ID=lease, keys=True)
    assert (told["ID"], told["grantedTTL"], [unb64(key) for key in told["keys"]]) == (lease, "600", [name])
    assert 590 <= int(told["TTL"]) <= 600
    assert "keys" not in etcd.ask("kv/lease/timetolive", ID=lease)
    etcd.delete(name)
    assert "keys" not in etcd.ask("lease/timetolive", ID=lease, keys=True)
    assert etcd.ask("lease/timetolive", ID="123456")["TTL"] == "-1"


def test_leases_are_listed(etcd: Gateway) -> None:
    ids = {etcd.ask("lease/grant", TTL="60")["ID"] for _ in range(20)}
    assert ids <= {one["ID"] for one in etcd.ask("lease/leases")["leases"]}
    for lease in ids:
        etcd.ask("lease/revoke", ID=lease)
    assert not ids & {one["ID"] for one in etcd.ask("lease/leases").get("leases", ())}


def test_a_lease_lives_while_it_is_kept_alive_and_takes_its_keys_along(port: int, etcd: Gateway, name: bytes) -> None:
    kept, left = (etcd.ask("lease/grant", TTL="2")["ID"] for _ in range(2))
    etcd.put(name + b"kept", b"", lease=kept)
    etcd.put(name + b"left", b"", lease=left)
    with Stream(port, "lease/keepalive") as stream:

        def has_left_alone() -> bool:
            stream.send({"ID": kept})
            told = stream.take()
            assert (told["ID"], told["TTL"]) == (kept, "2")
            return etcd.values(name + b"left") == {}

        wait_until(has_left_alone, timeout_s=WAIT_S, what="the end of a lease that nobody keeps")
        assert set(etcd.values(name, name + b"\xff")) == {name + b"kept"}
        stream.send({"ID": left})
        told = stream.take()
        assert (told["ID"], "TTL" in told) == (left, False)
        stream.end()
        assert stream.take() is None


def test_a_key_cannot_have_a_lease_that_is_gone(etcd: Gateway, name: bytes) -> None:
    with pytest.raises(Refused, match="requested lease not found"):
        etcd.put(name, b"", lease="987654")


UNKNOWN = 2


# --- locks ------------------------------------------------------------------------------------------------------------
class Waiting:
    """A request on a connection and a thread of its own."""

    def __init__(self, port: int, path: str, **request: Any) -> None:
        self.answer: Any = None
        self._gateway = Gateway(port)
        self._thread = threading.Thread(target=self._ask, args=(path, request))
        self._thread.start()

    def _ask(self, path: str, request: dict[str, Any]) -> None:
        with self._gateway:
            try:
                self.answer = self._gateway.ask(path, **request)
            except (Refused, OSError) as error:
                self.answer = error

    def result(self) -> Any:
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()
        return self.answer

    @property
    def is_waiting(self) -> bool:
        return self._thread.is_alive()


def queue(etcd: Gateway, name: bytes) -> int:
    return len(etcd.values(name + b"/", name + b"0"))


def test_a_lock_has_one_holder_and_goes_to_the_next_in_order(port: int, etcd: Gateway, name: bytes) -> None:
    leases = [etcd.ask("lease/grant", TTL="60")["ID"] for _ in range(3)]
    first = etcd.ask("lock/lock", name=b64(name), lease=leases[0])
    assert unb64(first["key"]) == name + b"/%x" % int(leases[0])
    assert etcd.ask("lock/lock", name=b64(name), lease=leases[0])["key"] == first["key"]
    waiting = []
    for number, lease in enumerate(leases[1:], 2):
        waiting.append(Waiting(port, "lock/lock", name=b64(name), lease=lease))
        wait_until(lambda count=number: queue(etcd, name) == count, timeout_s=WAIT_S, what="one more who waits")
    assert all(one.is_waiting for one in waiting)
    etcd.ask("lock/unlock", key=first["key"])
    second = waiting[0].result()
    assert unb64(second["key"]) == name + b"/%x" % int(leases[1])
    assert waiting[1].is_waiting
    etcd.ask("lease/revoke", ID=leases[1])
    assert unb64(waiting[1].result()["key"]) == name + b"/%x" % int(leases[2])


def test_a_lock_without_a_lease_gets_one(etcd: Gateway, name: bytes) -> None:
    key = unb64(etcd.ask("lock/lock", name=b64(name))["key"])
    lease = int(key.rpartition(b"/")[2], 16)
    assert etcd.ask("lease/timetolive", ID=str(lease), keys=True)["keys"] == [b64(key)]


def test_one_that_waits_loses_its_place_with_its_lease(port: int, etcd: Gateway, name: bytes) -> None:
    lease, other = (etcd.ask("lease/grant", TTL="60")["ID"] for _ in range(2))
    first = etcd.ask("lock/lock", name=b64(name), lease=lease)
    waiting = Waiting(port, "lock/lock", name=b64(name), lease=other)
    wait_until(lambda: queue(etcd, name) == 2, timeout_s=WAIT_S, what="the second")
    etcd.ask("lease/revoke", ID=other)
    etcd.ask("lock/unlock", key=first["key"])
    assert waiting.result().message == "mutex: session is expired"
    with pytest.raises(Refused, match="requested lease not found") as refused:
        etcd.ask("lock/lock", name=b64(name), lease=other)
    assert refused.value.code == UNKNOWN  # an error of etcd's own client, on which its service stands


def test_a_client_that_leaves_while_it_waits_takes_its_key_along(port: int, etcd: Gateway, name: bytes) -> None:
    lease, other = (etcd.ask("lease/grant", TTL="60")["ID"] for _ in range(2))
    etcd.ask("lock/lock", name=b64(name), lease=lease)
    with Stream(port, "lock/lock", {"name": b64(name), "lease": other}) as stream:
        stream.end()
        wait_until(lambda: queue(etcd, name) == 2, timeout_s=WAIT_S, what="the second")
    wait_until(lambda: queue(etcd, name) == 1, timeout_s=WAIT_S, what="the end of the second")


# --- elections --------------------------------------------------------------------------------------------------------
def test_an_election_has_one_leader_at_a_time(port: int, etcd: Gateway, name: bytes) -> None:
    with pytest.raises(Refused) as refused:
        etcd.ask("election/leader", name=b64(name))
    assert (refused.value.code, refused.value.message) == (2, "election: no leader")
    leases = [etcd.ask("lease/grant", TTL="60")["ID"] for _ in range(2)]
    with Stream(port, "election/observe", {"name": b64(name)}) as observed:
        won = etcd.ask("election/campaign", name=b64(name), lease=leases[0], value=b64(b"a"))
        leader = won["leader"]
        assert (unb64(leader["name"]), leader["lease"]) == (name, leases[0])
        assert unb64(leader["key"]) == name + b"/%x" % int(leases[0])
        assert unb64(observed.take()["kv"]["value"]) == b"a"
        waiting = Waiting(port, "election/campaign", name=b64(name), lease=leases[1], value=b64(b"b"))
        wait_until(lambda: queue(etcd, name) == 2, timeout_s=WAIT_S, what="the second candidate")
        etcd.ask("election/proclaim", leader=leader, value=b64(b"a2"))
        assert unb64(observed.take()["kv"]["value"]) == b"a2"
        assert unb64(etcd.ask("election/leader", name=b64(name))["kv"]["value"]) == b"a2"
        assert waiting.is_waiting
        etcd.ask("election/resign", leader=leader)
        second = waiting.result()["leader"]
        assert (second["lease"], int(second["rev"]) > int(leader["rev"])) == (leases[1], True)
        assert unb64(observed.take()["kv"]["value"]) == b"b"
        with pytest.raises(Refused, match="election: not leader"):
            etcd.ask("election/proclaim", leader=leader, value=b64(b"a3"))
        with pytest.raises(Refused, match="field must be provided"):
            etcd.ask("election/resign")


def test_a_candidate_may_come_again_with_another_value(etcd: Gateway, name: bytes) -> None:
    lease = etcd.ask("lease/grant", TTL="60")["ID"]
    first = etcd.ask("election/campaign", name=b64(name), lease=lease, value=b64(b"1"))
    again = etcd.ask("election/campaign", name=b64(name), lease=lease, value=b64(b"2"))
    assert again["leader"] == first["leader"]
    assert unb64(etcd.ask("election/leader", name=b64(name))["kv"]["value"]) == b"2"
