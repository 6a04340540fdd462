"""Connection strings, paths and chroots."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftmeta.errors import ConfigError
from raftmeta.metastore.paths import Chroot, is_path, parent_of
from raftmeta.metastore.urls import MetastoreUrl


def parse(text: str, **given: Any) -> MetastoreUrl:
    return MetastoreUrl.parse(text, given)


def test_kafkas_connection_string_is_zookeeper() -> None:
    """M1: `host:2181,host2:2181/chroot`, with and without a chroot, and the same with a scheme."""
    url = parse("h:2181,h2:2182/kafka/one")
    assert (url.scheme, url.place, url.chroot, url.auth) == ("zookeeper", "h:2181,h2:2182", "/kafka/one", ())
    assert parse("zookeeper://h:2181,h2:2182/kafka/one") == url
    assert parse("[::1]:2181").place == "[::1]:2181"
    assert parse("h").chroot == parse("h/").chroot == ""


def test_a_cluster_of_raftmeta_is_named_by_its_clients_addresses() -> None:
    """M1: the path is the chroot; other options are those of the back end."""
    url = parse("raft://h:7700,h2:7700/kafka/one?cluster=c&owner=me&auth=digest:u:p&root=zk")
    assert (url.scheme, url.place, url.chroot, url.root) == ("raft", "h:7700,h2:7700", "/kafka/one", "zk")
    assert url.store == ("raft://h:7700,h2:7700", {"cluster": "c", "owner": "me"})
    assert parse("raft://h:7700").root == "zookeeper"
    unix = parse("raft+unix:///folder/of/a?chroot=/kafka&session_timeout_s=3")
    assert (unix.chroot, unix.store[0], unix.settings.session_timeout_s) == ("/kafka", "raft+unix:///folder/of/a", 3.0)


def test_a_node_in_the_process_is_named_by_its_folder() -> None:
    """M1: the path is the folder, and the chroot an option; settings of Config stand in the URL, too."""
    url = parse("embedded:///data/a?name=a&peers=a=h:1,b=h:2&election_timeout_s=0.5&chroot=/kafka")
    assert (url.scheme, url.chroot, url.store["data_dir"]) == ("embedded", "/kafka", "/data/a")
    assert url.store["peers"] == {"a": "h:1", "b": "h:2"}
    assert url.store["config"].election_timeout_s == 0.5


def test_an_argument_goes_before_an_option() -> None:
    """Both name the same setting."""
    text = "h?session_timeout_s=6&max_in_flight_requests=5&auth=digest:me:a:b"
    url = parse(text, session_timeout_s=7.0, connection_timeout_s=None)
    assert (url.settings.session_timeout_s, url.settings.max_in_flight_requests) == (7.0, 5)
    assert url.settings.connection_timeout_s == 18.0
    assert url.auth == (("digest", "me:a:b"),)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("etcd://h:2379", "url"),
        ("", "url"),
        ("/kafka", "url"),
        ("zookeeper:///kafka", "url"),
        ("h/a//b", "url"),
        ("h?colour=red", "colour"),
        ("h?auth=digest", "auth"),
        ("h?session_timeout_s=soon", "session_timeout_s"),
        ("h?session_timeout_s=0", "session_timeout_s"),
        ("h?root=zk", "root"),
        ("raft:///kafka", "url"),
        ("raft://h:7700/a//b", "url"),
        ("raft://h:7700/kafka?root=a/b", "root"),
        ("raft://h:7700/kafka?prefix=app/", "prefix"),
        ("raft://h:7700/kafka?chroot=/a", "chroot"),
        ("raft://h:7700?session_timeout_s=0", "session_timeout_s"),
        ("embedded:///folder?name=a", "peers"),
        ("embedded:///folder?name=a&peers=a=h:1&chroot=a", "url"),
        ("embedded:///folder?name=a&peers=a=h:1&colour=red", "colour"),
    ],
)
def test_a_wrong_string_names_what_is_wrong(text: str, field: str) -> None:
    """Before anybody is asked."""
    with pytest.raises(ConfigError) as caught:
        parse(text)
    assert caught.value.field == field


NAMES = st.text(
    st.characters(min_codepoint=33, max_codepoint=0x2FF, exclude_characters="/\x7f", exclude_categories=["Cc"]),
    min_size=1,
)
PATHS = st.lists(NAMES.filter(lambda name: name not in (".", "..")), max_size=4).map(
    lambda names: "/" + "/".join(names)
)


@given(PATHS, PATHS)
def test_a_chroot_is_put_on_and_taken_off(root: str, path: str) -> None:
    """The way there and back gives the same path; what stands beside the chroot is not seen."""
    assert is_path(root) and is_path(path)
    chroot = Chroot("" if root == "/" else root)
    assert is_path(chroot.below(path))
    assert chroot.off(chroot.below(path)) == path
    if chroot.path:
        assert chroot.off(f"{chroot.path}x") is None
        assert chroot.to_create()[-1] == chroot.path
        assert [parent_of(each) for each in chroot.to_create()][1:] == chroot.to_create()[:-1]


def test_paths_are_those_of_zookeeper() -> None:
    """PathUtils.validatePath; a sequential name may be empty."""
    assert all(is_path(path) for path in ("/", "/a", "/a/b", "/...", "/a.b", "/ü", "/a b", "/日"))
    assert not any(is_path(path) for path in ("", "a", "/a/", "//", "/a//b", "/.", "/a/..", "/a\x1f", "/\U0001f600", 7))
    assert is_path("/a/", is_sequential=True) and not is_path("/a//", is_sequential=True)
    assert parent_of("/a/b") == "/a" and parent_of("/a") == parent_of("/") == "/"
