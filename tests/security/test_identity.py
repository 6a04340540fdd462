"""Names in certificates: two exact forms, and nothing else is anybody."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftmeta.security.identity_handle import parse_identity
from tests.security.certificates import client_uri, peer_uri

# A name as config.check_name takes it.
NAMES = st.text(min_size=1, max_size=64).filter(lambda name: name.isprintable() and len(name.encode()) <= 64)


@given(NAMES, NAMES)
def test_a_peer_comes_back_as_it_was_written(cluster: str, node: str) -> None:
    expected = None if node == "client" else ("peer", cluster, node)
    assert parse_identity(peer_uri(cluster, node)) == expected


@given(NAMES, NAMES)
def test_a_client_comes_back_as_it_was_written(cluster: str, principal: str) -> None:
    expected = None if principal == "peer" else ("client", cluster, principal)
    assert parse_identity(client_uri(cluster, principal)) == expected


@given(st.text(max_size=200))
def test_no_text_does_harm(rest: str) -> None:
    """A name that was read is written the same way again, up to the case of its escapes."""
    found = parse_identity(f"raftmeta://{rest}")
    if found is not None:
        role, cluster, name = found
        again = peer_uri(cluster, name) if role == "peer" else client_uri(cluster, name)
        assert parse_identity(again) == found


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "raftmeta:",
        "raftmeta://",
        "raftmeta://c",
        "raftmeta://c/a",
        "raftmeta://c/a/",
        "raftmeta://c/a/peer/",
        "raftmeta://c/a/peer?x",
        "raftmeta://c//peer",
        "raftmeta:///a/peer",
        "raftmeta://c/a/b/peer",
        "raftmeta://c/a/Peer",
        "raftmeta://c/a/learner",
        "RAFTMETA://c/a/peer",
        "https://c/a/peer",
        "raftmeta://*/a/peer",
        "raftmeta://c/*/peer",
        "raftmeta://c/client/",
        "raftmeta://c/client/peer",
        "raftmeta://c/%/peer",
        "raftmeta://c/%4/peer",
        "raftmeta://c/%GG/peer",
        "raftmeta://c/%00/peer",
        "raftmeta://c/%0A/peer",
        "raftmeta://c/%FF/peer",
        "raftmeta://c/a b/peer",
        "raftmeta://c/ä/peer",
        f"raftmeta://c/{'n' * 65}/peer",
        f"raftmeta://{'c' * 65}/n/peer",
        f"raftmeta://c/{'%41' * 65}/peer",
    ],
)
def test_another_form_names_nobody(uri: str) -> None:
    assert parse_identity(uri) is None


def test_escapes_are_the_bytes_they_stand_for() -> None:
    assert parse_identity("raftmeta://c/%41%c3%a4/peer") == ("peer", "c", "Aä")
    assert parse_identity(f"raftmeta://c/{'%41' * 64}/peer") == ("peer", "c", "A" * 64)
