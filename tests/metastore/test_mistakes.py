"""M12: the mistakes of two earlier metastores, each with the test that would have found it.

The first is the fork of Kafka that KIP-273 names, on etcd; the second ran on Atomix. Both were read in source.
"""

from __future__ import annotations

import threading

import pytest

from raftmeta import metastore
from raftmeta.metastore import (
    Code,
    CreateMode,
    CreateOp,
    CreateRequest,
    DeleteRequest,
    ExistsRequest,
    GetAclRequest,
    GetChildrenRequest,
    GetDataRequest,
    MultiRequest,
    Request,
    SetAclRequest,
    SetDataRequest,
)
from tests.metastore.conftest import Connect
from tests.metastore.places import WAIT_S, Place, expire
from tests.metastore.told import Children, States
from tests.processes.waiting import wait_until

EPHEMERAL = CreateMode.EPHEMERAL
SEQUENTIAL = CreateMode.PERSISTENT_SEQUENTIAL

EVERY_REQUEST: list[Request] = [  # type: ignore[type-arg]
    CreateRequest("/a", b""),
    ExistsRequest("/a"),
    GetDataRequest("/a"),
    SetDataRequest("/a", b"1"),
    GetAclRequest("/a"),
    SetAclRequest("/a", metastore.Acls.OPEN),
    GetChildrenRequest("/a"),
    MultiRequest([CreateOp("/b", b"")]),
    DeleteRequest("/a"),
]


# --- the etcd fork --------------------------------------------------------------------------------------------------


def test_etcd_fork_hard_coded_its_address(connect: Connect, place: Place, chroot: str) -> None:
    """`http://127.0.0.1:2379` whatever was configured: here a client speaks to the address that it was given."""
    with place.cuttable(chroot) as (url, gate):
        gate.cut()
        with pytest.raises(metastore.ConnectTimeout):
            connect(url, connection_timeout_s=0.3)
        gate.restore()
        assert connect(url).handle_request(ExistsRequest("/")).result_code == Code.OK


def test_etcd_fork_answered_null_to_half_of_the_requests(connect: Connect) -> None:
    """Create, Delete, ACLs and Multi gave null: here every request gives the response of its kind."""
    store = connect()
    for request in EVERY_REQUEST:
        answer = store.handle_request(request)
        assert type(answer).__name__ == type(request).__name__.replace("Request", "Response")
        assert answer.result_code == Code.OK, request


def test_etcd_fork_ignored_the_version_of_a_write(connect: Connect) -> None:
    """SetData went through whatever version was asked for."""
    store = connect()
    store.handle_request(CreateRequest("/a", b"0")).maybe_throw()
    assert store.handle_request(SetDataRequest("/a", b"1", 5)).result_code == Code.BADVERSION
    assert store.handle_request(GetDataRequest("/a")).data == b"0"


def test_etcd_fork_gave_no_stat(connect: Connect) -> None:
    """The Stat was null, so no epoch and no conditional write was possible."""
    store = connect()
    store.handle_request(CreateRequest("/a", b"0")).maybe_throw()
    for request in EVERY_REQUEST[1:7]:
        assert store.handle_request(request).stat.czxid > 0, request


def test_etcd_fork_had_no_session(connect: Connect) -> None:
    """`sessionId` was `???`, and ephemerals had no owner."""
    store = connect()
    assert store.session_id != 0
    stat = store.handle_request(CreateRequest("/a", b"", create_mode=EPHEMERAL)).stat
    assert stat.ephemeral_owner == store.session_id


def test_etcd_fork_never_waited_and_never_told_the_state(connect: Connect, place: Place, chroot: str) -> None:
    """waitUntilConnected did nothing, and state handlers were registered and never called."""
    other = connect()
    with place.cuttable(chroot) as (url, gate):
        store = connect(url)
        states = States("states", store)
        store.register_state_change_handler(states)
        gate.cut()
        with pytest.raises((metastore.ConnectTimeout, metastore.SessionExpired)):
            while True:
                store.wait_until_connected(0.1)  # until the cut is noticed
        gate.restore()
        store.wait_until_connected(WAIT_S)
        expire(store, gate, other)
        assert [word for word, _ in states.told][-2:] == ["before", "after"]


# --- the one on Atomix ----------------------------------------------------------------------------------------------


def test_atomix_dropped_requests_without_an_answer(connect: Connect) -> None:
    """Multi and ACL requests vanished, so fewer answers came than requests were made."""
    store = connect()
    answers = store.handle_requests(EVERY_REQUEST)
    assert len(answers) == len(EVERY_REQUEST)
    assert {answer.result_code for answer in answers} == {Code.OK}


def test_atomix_cleaned_ephemerals_by_the_view_of_other_brokers(connect: Connect, place: Place, chroot: str) -> None:
    """Ephemerals went when another broker thought that their owner was away; with nobody else there, they stayed.

    Here the store ends them with the session: all in one change, and a session that is only cut off keeps its own.
    """
    other = connect()
    other.handle_request(CreateRequest("/members", b"")).maybe_throw()
    with place.cuttable(chroot) as (url, gate):
        store = connect(url, session_timeout_s=30)
        names = [f"/members/{number}" for number in range(5)]
        for name in names:
            store.handle_request(CreateRequest(name, b"", create_mode=EPHEMERAL)).maybe_throw()
        gate.cut()
        assert len(other.handle_request(GetChildrenRequest("/members")).children) == 5
        wait_until(lambda: store.meters.events["Disconnects"].count, timeout_s=WAIT_S, what="the cut to be noticed")
        gate.restore()
        store.wait_until_connected(WAIT_S)
        before = other.handle_request(ExistsRequest("/members")).stat
        assert before.num_children == 5
        store.close()
        after = other.handle_request(ExistsRequest("/members")).stat
        assert (after.num_children, after.cversion) == (0, before.cversion + 5)


def test_atomix_counted_sequences_apart_from_the_create(connect: Connect) -> None:
    """The counter was a second request: two creators could get one number, and a failed create used one up."""
    stores = [connect() for _ in range(3)]
    stores[0].handle_request(CreateRequest("/s", b"")).maybe_throw()
    names: list[str] = []

    def create(store: object) -> None:
        answers = store.handle_requests([CreateRequest("/s/n-", b"", create_mode=SEQUENTIAL)] * 20)  # type: ignore[attr-defined]
        names.extend(answer.name for answer in answers)

    threads = [threading.Thread(target=create, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    strange = (metastore.Acl(31, "digest", "no colon"),)
    stores[0].handle_request(CreateRequest("/s/n-", b"", strange, SEQUENTIAL))
    names.append(stores[0].handle_request(CreateRequest("/s/n-", b"", create_mode=SEQUENTIAL)).name)
    assert sorted(names) == [f"/s/n-{number:010}" for number in range(61)]


def test_atomix_polled_for_the_expiry_once_a_session_time_out(connect: Connect, place: Place, chroot: str) -> None:
    """An expiry was noticed up to a whole time-out late, and told to nobody: here watchers are told by the store."""
    other = connect()
    other.handle_request(CreateRequest("/members", b"")).maybe_throw()
    members = Children("/members")
    other.register_znode_child_change_handler(members)
    with place.cuttable(chroot) as (url, gate):
        store = connect(url)
        store.handle_request(CreateRequest("/members/a", b"", create_mode=EPHEMERAL)).maybe_throw()
        other.handle_request(GetChildrenRequest("/members")).maybe_throw()
        expire(store, gate, other)
        members.wait(1)
        assert other.handle_request(GetChildrenRequest("/members")).children == ()
