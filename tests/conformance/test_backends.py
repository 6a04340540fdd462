"""The conformance suite on every back end: each keeps exactly what it declares."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

import raftmeta
from raftmeta.conformance import CHECKS, Check, Kit, outcome_of
from tests.client.nodes import serving
from tests.conformance.kits import embedded_kit, free_addresses, pysyncobj_kit, raft_kit

KITS: dict[str, Callable[[Path], AbstractContextManager[Kit]]] = {
    "embedded": embedded_kit,
    "raft": raft_kit,
    "pysyncobj": pysyncobj_kit,
}


@pytest.fixture(scope="module", params=KITS)
def kit(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kit]:
    with KITS[request.param](tmp_path_factory.mktemp(request.param)) as kit:
        yield kit


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_each_contract_holds_where_it_is_promised(check: Check, kit: Kit) -> None:
    outcome = outcome_of(check, kit)
    needs_servers = check.servers or check.one_server  # which test_promises.py and test_zookeeper.py have
    could_run = "not run" if needs_servers else "passed"
    wanted = could_run if check.is_promised(kit.capabilities) else "not promised"
    assert (outcome.state, outcome.why if outcome.state == "failed" else "") == (wanted, "")


def test_a_missing_promise_is_refused_before_anything_is_opened() -> None:
    """Code asks for what it needs and fails at the start; nobody listens at this address."""
    with pytest.raises(raftmeta.ConfigError, match="fencing, durable"):
        raftmeta.connect("pysyncobj://127.0.0.1:1", require=raftmeta.Capabilities(fencing=True, durable=True))


def test_processes_of_one_machine_connect_through_the_folder(tmp_path: Path) -> None:
    """raft+unix: the same plug-in as raft, over another kind of connection; blocking and on asyncio."""

    async def join(url: str) -> None:
        async with await raftmeta.backends.connect_aio(url) as backend:
            await backend.group("workers").join("2")
            assert await backend.group("workers").membership_list() == {"1", "2"}

    with serving(tmp_path, local_clients=True):
        url = f"raft+unix://{tmp_path / 'a'}?owner=worker"
        with raftmeta.connect(url) as backend:
            backend.group("workers").join("1")
            asyncio.run(join(url))
            assert backend.group("workers").membership_list() == {"1"}


def test_an_unknown_scheme_names_those_that_are_installed() -> None:
    installed = r"cassandra, consul, embedded, etcd, http, https, pysyncobj, raft, raft\+unix, zookeeper"
    with pytest.raises(raftmeta.ConfigError, match=installed):
        raftmeta.connect("nowhere://127.0.0.1:2181")


@pytest.mark.parametrize(
    ("url", "field"),
    [
        ("no url", "url"),
        ("pysyncobj://127.0.0.1:1?colour=red", "colour"),
        ("pysyncobj://127.0.0.1:1?ttl_s=soon", "ttl_s"),
        ("pysyncobj://127.0.0.1:1?ttl_s=1&ttl_s=2", "url"),
        ("pysyncobj://", "url"),
        ("consul://", "url"),
        ("consul://127.0.0.1:1?colour=red", "colour"),
        ("consul://127.0.0.1:1?ttl_s=5", "ttl_s"),
        ("etcd://", "url"),
        ("etcd://127.0.0.1", "url"),
        ("etcd://127.0.0.1:1?colour=red", "colour"),
        ("etcd://127.0.0.1:1?user=secret", "user"),
        ("etcd://127.0.0.1:1?ttl_s=0", "ttl_s"),
        ("etcd://127.0.0.1:1?cert=c", "cert"),
        ("etcd://127.0.0.1:1?ca=/nowhere", "ca"),
        ("etcd://127.0.0.1:1/a?prefix=b", "prefix"),
        ("raft://", "url"),
        ("raft://127.0.0.1:1/a?prefix=b", "prefix"),
        ("raft://127.0.0.1:1?colour=red", "colour"),
        ("raft+unix://127.0.0.1:1", "url"),
    ],
)
def test_a_wrong_url_names_what_is_wrong(url: str, field: str) -> None:
    with pytest.raises(raftmeta.ConfigError) as caught:
        raftmeta.connect(url)
    assert caught.value.field == field


def test_a_renewal_says_nothing_of_what_was_taken_while_it_was_under_way() -> None:
    """PySyncObj: its answer knew neither the member nor the candidate, and both were taken for lost."""
    with raftmeta.connect(f"pysyncobj://{free_addresses(1)[0]}?ttl_s=60", timeout_s=20) as backend:
        sent_s = time.monotonic()
        group: Any = backend.group("g")
        election: Any = backend.election("e")
        member = group.join("a")
        assert election.nominate("a")
        for part in (group, election):
            part.renewed(set(), sent_s)
        assert member.held()
        assert election.lead("a") is not None
