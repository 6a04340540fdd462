"""etcd:// on a real server, where one is built: what is etcd's own. ./build.sh doors etcd has the whole suite."""

from __future__ import annotations

import base64
import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import raftmeta
from raftmeta.backends.plugin import SystemStore
from raftmeta.conformance.kit import Told, eventually
from raftmeta.operations import Create, Delete, Update
from tests.conformance.etcd_cluster import EtcdCluster

OPEN_S = 60.0


class OneEtcd(EtcdCluster):
    members = (1,)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneEtcd]:
    with OneEtcd(tmp_path_factory.mktemp("etcd") / "servers") as server:
        yield server


def url_of(server: OneEtcd, prefix: str, **options: Any) -> str:
    told = "".join(f"&{name}={value}" for name, value in options.items())
    return f"etcd://{server.addresses}/{prefix}?ttl_s=5{told}"


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    return str(request.node.name)


@pytest.fixture
def backend(server: OneEtcd, prefix: str) -> Iterator[SystemStore]:
    with raftmeta.connect(url_of(server, prefix), timeout_s=OPEN_S) as backend:
        assert isinstance(backend, SystemStore)
        yield backend


def ask(server: OneEtcd, path: str, token: str = "", **request: Any) -> Any:
    """Somebody else's request."""
    connection = http.client.HTTPConnection(server.addresses, timeout=OPEN_S)
    try:
        headers = {"Authorization": token} if token else {}
        connection.request("POST", path, body=json.dumps(request).encode(), headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == http.client.OK, body
        return json.loads(body)
    finally:
        connection.close()


def coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_keys_and_values_are_as_etcdctl_shows_them(server: OneEtcd, backend: SystemStore, prefix: str) -> None:
    revision = backend.storage.put("topics/t", b"3")
    (kv,) = ask(server, "/v3/kv/range", key=coded(f"{prefix}/topics/t"))["kvs"]
    assert (base64.b64decode(kv["value"]), int(kv["mod_revision"])) == (b"3", revision)
    ask(server, "/v3/kv/put", key=coded(f"{prefix}/topics/u"), value=coded("4"))
    assert backend.storage.fetch("topics/u").result(OPEN_S) == b"4"
    assert backend.storage.children("topics/") == {"topics/t", "topics/u"}


def test_a_place_goes_with_its_lease_and_its_fence_with_it(server: OneEtcd, backend: SystemStore, prefix: str) -> None:
    """An operator revokes the lease: members are told, and the candidate stands anew, with a higher epoch."""
    lost, elected = Told(), Told()
    election = backend.election("e")
    assert election.nominate("a", on_elected=elected, on_lost=lost)
    first = election.lead("a")
    (kv,) = ask(server, "/v3/kv/range", key=coded(f"{prefix}/_raftmeta/elections/e/a"))["kvs"]
    assert int(kv["mod_revision"]) == first.epoch
    ask(server, "/v3/lease/revoke", ID=kv["lease"])
    lost.until(lambda held: held.epoch == first.epoch, "the loss")
    second = elected.until(lambda lead: lead.epoch > first.epoch, "the lead anew")
    assert not first.held()
    with pytest.raises(raftmeta.Fenced):
        backend.storage.put("k", b"", fence=first)
    backend.storage.put("k", b"", fence=second)


def test_a_fence_travels_and_is_checked_with_the_write(server: OneEtcd, backend: SystemStore, prefix: str) -> None:
    election = backend.election("e")
    election.nominate("a")
    fence = election.lead("a").fence
    election.resign("a")
    election.nominate("a")
    with raftmeta.connect(url_of(server, prefix), timeout_s=OPEN_S) as other:
        with pytest.raises(raftmeta.Fenced):
            other.storage.put("k", b"", fence=fence)
        other.storage.put("k", b"", fence=election.lead("a").fence)
        with pytest.raises(raftmeta.InvalidArgument):
            other.storage.put("l", b"", fence=raftmeta.Fence("k", 1))


def test_operations_on_one_key_count_one_after_the_other(backend: SystemStore) -> None:
    """etcd refuses two writes of one key in a transaction: the last one is sent, and all of them are checked."""
    storage = backend.storage
    storage.multi([Create("k", "1"), Update("k", "2"), Delete("k"), Create("k", "3")])
    assert storage.fetch("k").result(OPEN_S) == b"3"
    with pytest.raises(raftmeta.KeyExists):
        storage.multi([Update("k", "4"), Create("k", "5")])
    with pytest.raises(raftmeta.KeyMissing):
        storage.multi([Delete("k"), Update("k", "5")])
    assert storage.fetch("k").result(OPEN_S) == b"3"
    with pytest.raises(raftmeta.InvalidArgument, match="128"):
        storage.multi([Create(f"k{number}", "") for number in range(200)])


def test_a_history_that_is_gone_is_one_coalesced_call(server: OneEtcd, backend: SystemStore) -> None:
    """The watch asks for a revision that etcd has compacted, as after a long break."""
    news: list[Any] = []
    first = backend.storage.put("k", "0")
    for number in range(1, 4):
        last = backend.storage.update("k", str(number))
    ask(server, "/v3/kv/compaction", revision=str(last), physical=True)
    watch = backend.watch("k", start_revision=first, callback=news.append, on_end=news.append)
    eventually(lambda: len(news) == 1, "the reset")
    assert (news[0].revision >= last, [record.value for record in news[0].records]) == (True, [b"3"])
    newest = backend.storage.update("k", "4")
    eventually(lambda: len(news) == 2, "the change behind it")
    assert (news[1].revision, [event.record.value for event in news[1].events]) == (newest, [b"4"])
    watch.close()
    eventually(lambda: news[2:] == [None], "the end")


def test_a_watch_goes_on_where_its_stream_broke(backend: SystemStore) -> None:
    """Every change is told, in order, and none twice; nothing is flagged as a gap."""
    told = Told()
    backend.storage.put("k", "0")
    backend.listeners.add_value_change_listener("k", told)
    for number in range(1, 31):
        backend.storage.update("k", str(number))
        if number % 10 == 5:
            for watch in list(backend.system._watches):  # type: ignore[attr-defined]
                watch.leave(watch.address)
    told.until(lambda change: change.value == b"30", "the last change")
    assert [int(change.value) for change in told.changes] == list(range(1, 31))
    assert not any(change.coalesced for change in told.changes)


def test_a_later_life_of_an_owner_takes_its_place(server: OneEtcd, prefix: str) -> None:
    url = url_of(server, prefix, owner="broker")
    with raftmeta.connect(url, timeout_s=OPEN_S) as first, raftmeta.connect(url, timeout_s=OPEN_S) as second:
        lost = Told()
        member = first.group("g").join("a", on_lost=lost)
        again = second.group("g").join("a")
        lost.until(lambda held: held.id == "a", "the loss")
        assert (member.held(), again.held(), again.epoch > member.epoch) == (False, True, True)


def test_users_have_the_rights_that_etcd_gives_them(tmp_path: Path) -> None:
    """A wrong password, a key without a right, and a token that etcd has forgotten."""
    with OneEtcd(tmp_path / "servers") as server:
        ask(server, "/v3/auth/user/add", name="root", password="r")
        ask(server, "/v3/auth/role/add", name="root")
        ask(server, "/v3/auth/user/grant", user="root", role="root")
        ask(server, "/v3/auth/user/add", name="app", password="secret")
        ask(server, "/v3/auth/role/add", name="app")
        span = {"key": coded("app/"), "range_end": coded("app0")}
        ask(server, "/v3/auth/role/grant", name="app", perm={"permType": "READWRITE", **span})
        ask(server, "/v3/auth/user/grant", user="app", role="app")
        ask(server, "/v3/auth/enable")
        with raftmeta.connect(url_of(server, "app", user="app:secret"), timeout_s=OPEN_S) as backend:
            assert isinstance(backend, SystemStore)
            told = Told()
            backend.listeners.add_value_change_listener("k", told)
            backend.storage.put("k", "1")
            backend.group("g").join("a")
            system: Any = backend.system
            system._token = "forgotten"
            backend.storage.update("k", "2")
            told.until(lambda change: change.value == b"2", "the second change")
        with pytest.raises(raftmeta.AuthenticationFailed) as caught:
            raftmeta.connect(url_of(server, "app", user="app:wrong"), timeout_s=OPEN_S)
        assert "wrong" not in str(caught.value)
        with pytest.raises(raftmeta.PermissionDenied):
            raftmeta.connect(url_of(server, "other", user="app:secret"), timeout_s=OPEN_S)
