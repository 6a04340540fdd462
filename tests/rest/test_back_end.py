"""http:// keeps the contracts of its promises on a node of raftmeta."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import raftmeta
from raftmeta.conformance import CHECKS, Check, Kit, outcome_of
from tests.conformance.kits import opened
from tests.rest.servers import asking, own_server


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kit]:
    with own_server(tmp_path_factory.mktemp("raftmeta")) as addresses, asking(addresses.split(",")[0]):
        url = f"http://{addresses}?ttl_s=3"
        with opened([url, url], party_url=url, has_owners=True) as kit:
            yield kit


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_each_contract_holds_where_it_is_promised(check: Check, kit: Kit) -> None:
    outcome = outcome_of(check, kit)
    needs_servers = check.servers or check.one_server  # which no test of this file has
    could_run = "not run" if needs_servers else "passed"
    wanted = could_run if check.is_promised(kit.capabilities) else "not promised"
    assert (outcome.state, outcome.why if outcome.state == "failed" else "") == (wanted, "")


@pytest.mark.parametrize(
    ("url", "field"),
    [
        ("http://", "url"),
        ("http://127.0.0.1:1?colour=red", "colour"),
        ("http://127.0.0.1:1?user=secret", "user"),
        ("http://127.0.0.1:1?ca=file", "url"),
    ],
)
def test_a_wrong_url_names_what_is_wrong(url: str, field: str) -> None:
    with pytest.raises(raftmeta.ConfigError) as caught:
        raftmeta.connect(url, timeout_s=0.5)
    assert caught.value.field == field
    assert "secret" not in str(caught.value)
