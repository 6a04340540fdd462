"""consul:// on a real server, where one is built: what is Consul's own. ./build.sh doors consul has the whole suite."""

from __future__ import annotations

import base64
import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

import raftmeta
from raftmeta.backends.plugin import SystemStore
from raftmeta.conformance.kit import Told
from raftmeta.operations import Create, Delete, Update
from tests.conformance.consul_cluster import ConsulCluster

OPEN_S = 60.0


class OneConsul(ConsulCluster):
    members = (1,)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneConsul]:
    with OneConsul(tmp_path_factory.mktemp("consul") / "servers") as server:
        yield server


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    return str(request.node.name)


@pytest.fixture
def backend(server: OneConsul, prefix: str) -> Iterator[SystemStore]:
    with raftmeta.connect(f"consul://{server.addresses}/{prefix}", timeout_s=OPEN_S) as backend:
        assert isinstance(backend, SystemStore)
        yield backend


def ask(server: OneConsul, method: str, path: str) -> Any:
    """Somebody else's request."""
    connection = http.client.HTTPConnection(server.addresses, timeout=OPEN_S)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == http.client.OK, body
        return json.loads(body)
    finally:
        connection.close()


def test_keys_and_values_are_as_consul_shows_them(server: OneConsul, backend: SystemStore, prefix: str) -> None:
    revision = backend.storage.put("topics/t", b"3")
    (kv,) = ask(server, "GET", f"/v1/kv/{prefix}/topics/t")
    assert (base64.b64decode(kv["Value"]), kv["ModifyIndex"]) == (b"3", revision)


def test_an_update_with_the_same_value_has_a_revision_of_its_own(backend: SystemStore) -> None:
    """Consul does not write what is there already: two writers with one expected revision would both succeed."""
    first = backend.storage.put("k", "same")
    second = backend.storage.update("k", "same", expected_revision=first)
    assert second > first
    with pytest.raises(raftmeta.CompareFailed):
        backend.storage.update("k", "same", expected_revision=first)
    assert backend.storage.multi([Delete("k")]) > second  # its answer has no index but that of our own key


def test_a_session_that_is_destroyed_takes_place_and_fence(
    server: OneConsul, backend: SystemStore, prefix: str
) -> None:
    """The candidate stands anew, with a higher epoch."""
    lost, elected = Told(), Told()
    election = backend.election("e")
    assert election.nominate("a", on_elected=elected, on_lost=lost)
    first = election.lead("a")
    (kv,) = ask(server, "GET", f"/v1/kv/{prefix}/_raftmeta/elections/e/a")
    assert kv["ModifyIndex"] == first.epoch
    ask(server, "PUT", f"/v1/session/destroy/{kv['Session']}")
    lost.until(lambda held: held.epoch == first.epoch, "the loss")
    second = elected.until(lambda lead: lead.epoch > first.epoch, "the lead anew")
    with pytest.raises(raftmeta.Fenced):
        backend.storage.put("k", b"", fence=first)
    backend.storage.put("k", b"", fence=second)


def test_operations_on_one_key_count_one_after_the_other(backend: SystemStore) -> None:
    storage = backend.storage
    storage.multi([Create("k", "1"), Update("k", "2"), Delete("k"), Create("k", "3")])
    assert storage.fetch("k").result(OPEN_S) == b"3"
    with pytest.raises(raftmeta.KeyMissing):
        storage.multi([Create("l", ""), Update("missing", "")])
    assert storage.get("l") is None
    with pytest.raises(raftmeta.InvalidArgument, match="128"):
        storage.multi([Create(f"k{number}", "") for number in range(200)])


def test_a_write_whose_answer_is_lost_is_found_by_its_mark(backend: SystemStore) -> None:
    system: Any = backend.system
    call, lost = system._servers.call, []

    def losing(method: str, path: str, *arguments: Any, **options: Any) -> Any:
        answer = call(method, path, *arguments, **options)
        if path == "/v1/txn" and not lost:
            lost.append(answer)
            raise raftmeta.OutcomeUnknown("the connection was lost on purpose")
        return answer

    system._servers.call = losing
    revision = backend.storage.put("k", "1")
    stored = backend.storage.get("k")
    assert lost and stored is not None and (stored.data, stored.revision) == (b"1", revision)
