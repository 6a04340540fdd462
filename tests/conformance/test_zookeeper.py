"""zookeeper:// on a real ensemble of three: the whole suite with kills and freezes, and what no other back end has."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

import raftmeta
from raftmeta.backends.zookeeper import ZooKeeperBackend
from raftmeta.conformance import CHECKS, Check, Kit, outcome_of
from raftmeta.conformance.aio_kit import DrivenBackend, EventLoop
from raftmeta.conformance.kit import Told, eventually
from raftmeta.interfaces import State
from tests.conformance.zookeeper_ensemble import Ensemble

SESSION_S = 6.0
OPEN_S = 60.0


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    with Ensemble(tmp_path_factory.mktemp("ensemble") / "servers") as ensemble:
        yield ensemble


def url_of(ensemble: Ensemble, chroot: str, **options: Any) -> str:
    told = "".join(f"&{name}={value}" for name, value in options.items())
    return f"zookeeper://{ensemble.addresses}/{chroot}?session_timeout_s={SESSION_S:g}{told}"


@pytest.fixture(scope="module")
def kit(ensemble: Ensemble) -> Iterator[Kit]:
    url = url_of(ensemble, "suite")
    with raftmeta.connect(url, timeout_s=OPEN_S) as first, raftmeta.connect(url, timeout_s=OPEN_S) as second:
        yield Kit([first, second], party_url=url, has_owners=True, servers=ensemble.servers())


@pytest.fixture
def backend(ensemble: Ensemble, request: pytest.FixtureRequest) -> Iterator[ZooKeeperBackend]:
    with raftmeta.connect(url_of(ensemble, request.node.name[:60]), timeout_s=OPEN_S) as backend:
        assert isinstance(backend, ZooKeeperBackend)
        yield backend


@pytest.fixture
def raw(ensemble: Ensemble) -> Iterator[KazooClient]:
    """Somebody else's client."""
    client = KazooClient(ensemble.addresses)
    client.start(OPEN_S)
    yield client
    client.stop()
    client.close()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_each_contract_holds_on_a_real_ensemble(check: Check, kit: Kit) -> None:
    """Nothing stays "not run": the suite kills and freezes servers and processes, and crashes all servers at once."""
    outcome = outcome_of(check, kit)
    wanted = "passed" if check.is_promised(kit.capabilities) else "not promised"
    assert (outcome.state, outcome.why if outcome.state == "failed" else "") == (wanted, "")


def test_the_asyncio_face_keeps_the_contracts(ensemble: Ensemble) -> None:
    """Also in the processes that are killed and frozen."""
    loop = EventLoop()
    try:
        url = url_of(ensemble, "aio")
        with DrivenBackend(url, loop, timeout_s=OPEN_S) as first, DrivenBackend(url, loop, timeout_s=OPEN_S) as second:
            kit = Kit([first, second], party_url=url, has_owners=True, is_aio=True)
            wanted = [check for check in CHECKS if not check.servers and not check.one_server]
            found = [outcome_of(check, kit) for check in wanted]
    finally:
        loop.close()
    assert [(one.check.name, one.why) for one in found if one.state in ("failed", "not run")] == []


def test_reads_by_quorum_are_promised_and_linearizable(ensemble: Ensemble) -> None:
    (check,) = [check for check in CHECKS if check.needs == "linearizable_reads"]
    url = url_of(ensemble, "quorum", reads="quorum")
    with raftmeta.connect(url, timeout_s=OPEN_S) as first, raftmeta.connect(url, timeout_s=OPEN_S) as second:
        assert first.capabilities.linearizable_reads
        outcome = outcome_of(check, Kit([first, second], party_url=None))
    assert (outcome.state, outcome.why) == ("passed", "")


def test_values_are_plain_nodes_and_epochs_are_czxids(backend: ZooKeeperBackend, raw: KazooClient) -> None:
    """Other programs read them; docs/formats.md says where they are."""
    root = backend.session.root
    revision = backend.storage.put("topics/t", b"3")
    raw.sync("/")  # its server may be behind
    data, stat = raw.get(f"{root}/keys/topics%2Ft")
    assert (data, stat.mzxid) == (b"3", revision)
    member = backend.group("brokers").join("..")
    raw.sync("/")
    _, stat = raw.get(f"{root}/groups/brokers/%2E%2E")
    assert (stat.czxid, stat.ephemeralOwner != 0) == (member.epoch, True)
    assert raw.exists(f"{root}/{member.fence.key}").czxid == member.epoch


def test_a_revision_is_not_mistaken_after_its_key_was_made_anew(backend: ZooKeeperBackend, raw: KazooClient) -> None:
    """The version of the node is 0 again: ZooKeeper alone would take the write.

    1. The key has version 0. 2. Our write has read that. 3. The key is removed and made anew: version 0. 4. The write.
    """
    storage, session = backend.storage, backend.session
    first = storage.put("k", b"1")
    storage.put("other", b"")
    storage.delete("other")  # the node for removals may be there, or not
    multi, is_first = session.multi, [True]

    def in_between(steps: Any, deadline: Any) -> Any:
        if is_first and steps[0].kind == "set":
            is_first.clear()
            storage.delete("k")
            storage.put("k", b"2")
        return multi(steps, deadline)

    session.multi = in_between  # type: ignore[method-assign]
    with pytest.raises(raftmeta.CompareFailed):
        storage.update("k", b"3", expected_revision=first)
    assert not is_first
    stored = storage.get("k")
    assert stored is not None and stored.data == b"2"


def test_removing_what_may_be_missing_is_all_or_nothing(backend: ZooKeeperBackend) -> None:
    storage = backend.storage
    storage.put("there", b"")
    storage.multi([raftmeta.Delete("missing"), raftmeta.Delete("there"), raftmeta.Create("new", b"1")])
    assert storage.children("") == {"new"}
    with pytest.raises(raftmeta.KeyMissing):
        storage.multi([raftmeta.Delete("new"), raftmeta.Delete("missing", must_exist=True)])
    assert storage.children("") == {"new"}


def test_a_session_that_expires_loses_all_and_stands_again(backend: ZooKeeperBackend) -> None:
    """ZooKeeper ends the session as if it had heard nothing; members are told, candidates stand behind the others."""
    lost, elected, states = Told(), Told(), Told()
    backend.add_state_listener(states)
    member = backend.group("g").join("a", on_lost=lost)
    election = backend.election("e")
    assert election.nominate("a", on_elected=elected, on_lost=lost)
    first = election.lead("a")
    assert first is not None
    _expire(backend)
    lost.until(lambda held: held is member, "the member")
    lost.until(lambda held: held is first, "the lead")
    assert not member.held() and not first.held()
    second = elected.until(lambda lead: lead.epoch > first.epoch, "the lead anew")
    states.until(lambda state: state == State.LOST, "the loss of the session")
    eventually(lambda: backend.group("g").membership_list() == frozenset(), "the member is gone")
    with pytest.raises(raftmeta.Fenced):
        backend.storage.put("k", b"", fence=first)
    backend.storage.put("k", b"", fence=second)
    member = backend.group("g").join("a")
    assert member.held()


def _expire(backend: ZooKeeperBackend) -> None:
    """Another connection takes the session over and closes it, as kazoo's own tests do it."""
    id, password = backend.session._client.client_id
    other = KazooClient(
        ",".join(f"{host}:{port}" for host, port in backend.session._client.hosts), client_id=(id, password)
    )
    other.start(OPEN_S)
    other.stop()
    other.close()


def test_a_fence_that_was_lost_elsewhere_is_refused_by_the_store(ensemble: Ensemble, backend: ZooKeeperBackend) -> None:
    """As a plain Fence it travels; the ticket is what counts, not the name of the place, which is taken anew."""
    election = backend.election("e")
    election.nominate("a")
    lead = election.lead("a")
    assert lead is not None
    fence = lead.fence
    election.resign("a")
    election.nominate("a")
    with raftmeta.connect(url_of(ensemble, backend.session.root.split("/")[1]), timeout_s=OPEN_S) as other:
        with pytest.raises(raftmeta.Fenced):
            other.storage.put("k", b"", fence=fence)
        new = election.lead("a")
        assert new is not None
        other.storage.put("k", b"", fence=new.fence)
        with pytest.raises(raftmeta.InvalidArgument):
            other.storage.put("l", b"", fence=raftmeta.Fence("no/ticket", 1))


def test_a_key_that_came_and_went_unseen_is_told(backend: ZooKeeperBackend) -> None:
    """One multi makes and removes it: the set is the same, and its listener is told that there was something."""
    told, values = Told(), Told()
    backend.storage.put("stays", b"1")
    backend.listeners.add_key_set_change_listener("", told)
    backend.listeners.add_value_change_listener("stays", values)
    backend.storage.multi([raftmeta.Create("short", b""), raftmeta.Delete("short", must_exist=True)])
    change = told.until(lambda change: change.keys == {"stays"}, "the change")
    assert change.coalesced
    revision = backend.storage.update("stays", b"2")
    update = values.until(lambda change: change.value == b"2", "the update")
    assert (update.revision, update.coalesced) == (revision, False)
    backend.storage.delete("stays")
    gone = values.until(lambda change: change.value is None, "the removal")
    assert gone.coalesced and gone.revision > revision


def test_a_listener_goes_on_after_looks_that_failed(backend: ZooKeeperBackend) -> None:
    """Its watch has fired already: nothing but the next look tells it of the change."""
    group, told, session = backend.group("g"), Told(), backend.session
    group.add_listener(told)
    read, failures, me = session.read, [1, 2], threading.get_ident()

    def failing(*arguments: Any, **options: Any) -> Any:
        if failures and threading.get_ident() != me:
            failures.pop()
            raise raftmeta.PermissionDenied("as long as an operator took the right away")
        return read(*arguments, **options)

    session.read = failing  # type: ignore[method-assign]
    group.join("a")
    told.until(lambda change: change.ids == {"a"}, "the member")
    assert not failures


def test_an_owner_that_was_succeeded_takes_nothing_back(ensemble: Ensemble) -> None:
    """Two lives of one owner at the same time: the later one has the place, and the former one lets it be."""
    url = url_of(ensemble, "lives", owner="broker")
    with raftmeta.connect(url, timeout_s=OPEN_S) as first, raftmeta.connect(url, timeout_s=OPEN_S) as second:
        lost = Told()
        first.election("e").nominate("a", on_lost=lost)
        second.election("e").nominate("a")
        lost.until(lambda held: held.id == "a", "the loss")
        lead = second.election("e").lead("a")
        assert lead is not None and lead.held()
        eventually(lambda: first.election("e").nominate("b") is False, "another candidate waits")
        assert second.election("e").lead("a") is lead


def test_nodes_made_with_auth_belong_to_their_user(ensemble: Ensemble, raw: KazooClient) -> None:
    with raftmeta.connect(url_of(ensemble, "auth", auth="digest:u:p"), timeout_s=OPEN_S) as own:
        own.storage.put("k", b"1")
        with raftmeta.connect(url_of(ensemble, "auth", auth="digest:u:p"), timeout_s=OPEN_S) as again:
            assert again.storage.fetch("k").result(OPEN_S) == b"1"
    with pytest.raises(raftmeta.PermissionDenied):
        raftmeta.connect(url_of(ensemble, "auth"), timeout_s=OPEN_S)
    raw.sync("/")
    with pytest.raises(NoAuthError):
        raw.get("/auth/raftmeta/keys/k")


def test_a_close_ends_the_session_at_once(ensemble: Ensemble) -> None:
    """The places go with it, not a time-out later; a call after it, and one that waits, are told so."""
    with raftmeta.connect(url_of(ensemble, "close"), timeout_s=OPEN_S) as observer:
        leaver = raftmeta.connect(url_of(ensemble, "close"), timeout_s=OPEN_S)
        told = Told()
        observer.group("g").add_listener(told)
        member = leaver.group("g").join("a")
        told.until(lambda change: change.ids == {"a"}, "the member")
        closers = [threading.Thread(target=leaver.close) for _ in range(2)]
        for closer in closers:
            closer.start()
        for closer in closers:
            closer.join(OPEN_S)
        told.until(lambda change: not change.ids, "nobody")
        assert not member.held()
        with pytest.raises(raftmeta.NodeClosed):
            leaver.storage.get("k")


def test_nobody_listens_and_the_time_is_over() -> None:
    with pytest.raises(raftmeta.ReadyTimeout):
        raftmeta.connect("zookeeper://127.0.0.1:1", timeout_s=0.5)


@pytest.mark.parametrize(
    ("url", "field"),
    [
        ("zookeeper://", "url"),
        ("zookeeper://127.0.0.1:1?colour=red", "colour"),
        ("zookeeper://127.0.0.1:1?reads=fast", "reads"),
        ("zookeeper://127.0.0.1:1?session_timeout_s=0", "session_timeout_s"),
        ("zookeeper://127.0.0.1:1?auth=digest:secret", "auth"),
        ("zookeeper://127.0.0.1:1/a/../b", "url"),
    ],
)
def test_a_wrong_url_names_what_is_wrong(url: str, field: str) -> None:
    """And shows no password."""
    with pytest.raises(raftmeta.ConfigError) as caught:
        raftmeta.connect(url, timeout_s=0.5)
    assert caught.value.field == field
    assert "secret" not in str(caught.value)


def test_the_commands_are_for_one_server(ensemble: Ensemble, tmp_path: Path) -> None:
    """One that fails is told with what it said, and heal is run whatever happens in between."""
    healed = tmp_path / "healed"
    servers = raftmeta.conformance.Servers(kill="true", freeze="echo on purpose; exit 3", heal=f"touch '{healed}'")
    with pytest.raises(raftmeta.conformance.CheckFailed, match=r"ended with 3: on purpose"), servers.one("freeze"):
        pass
    assert not healed.exists()
    with pytest.raises(ZeroDivisionError), servers.one("kill"):
        raise ZeroDivisionError
    assert healed.exists()
    assert servers.can("kill") and not servers.can_crash
