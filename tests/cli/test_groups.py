"""raftmeta group: worker groups as an operator sees them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

import raftmeta
from raftmeta.cli.app import app
from tests.client.nodes import serving
from tests.processes.waiting import wait_until

WAIT_S = 60.0


class Shell:
    """The commands in this process, on one node that serves clients."""

    def __init__(self, node: raftmeta.Node, url: str) -> None:
        self.node = node
        self.url = url

    def run(self, *arguments: str, code: int = 0) -> str:
        ended = CliRunner().invoke(app, ["--url", self.url, *arguments])
        assert ended.exit_code == code, ended.output
        return ended.output

    def json(self, *arguments: str) -> object:
        return json.loads(self.run("--json", *arguments))

    def join(self, group: str, instance: str = "") -> str:
        """The only member of a group."""
        me = self.node.groups.join(
            group, {"range": b""}, lease=self.node.lease(60), instance=instance, client="c", initial_delay_s=0
        )
        self.node.groups.sync(group, me.generation, me.member_id, {me.member_id: b"all"}, timeout_s=WAIT_S)
        return me.member_id


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with serving(tmp_path_factory.mktemp("groups")) as (nodes, url):
        wait_until(lambda: nodes["a"].status().feature_level >= 5, timeout_s=WAIT_S, what="the level of groups")
        yield Shell(nodes["a"], url)


def test_groups_are_listed_and_described(shell: Shell) -> None:
    member = shell.join("listed")
    assert shell.json("group", "list", "list") == [
        {"group": "listed", "state": "Stable", "generation": 1, "type": "worker"}
    ]
    assert "listed" in shell.run("group", "list")
    assert shell.json("group", "describe", "listed") == {
        "group": "listed",
        "state": "Stable",
        "generation": 1,
        "type": "worker",
        "protocol": "range",
        "leader": member,
        "members": 1,
    }
    assert f"leader: {member}" in shell.run("group", "describe", "listed")
    assert shell.json("group", "members", "listed") == [
        {"member": member, "instance": "", "client": "c", "leads": "yes", "assignment bytes": 3}
    ]
    for command in ("describe", "members"):
        assert "no worker group 'none'" in shell.run("group", command, "none", code=1)


@pytest.mark.parametrize("instance", ["", "host"])
def test_a_member_is_removed_by_id_or_by_instance(shell: Shell, instance: str) -> None:
    name = f"removed{instance}"
    member = shell.join(name, instance)
    words = ["--instance", name, instance] if instance else [name, member]
    assert shell.run("group", "remove-member", *words) == f"removed {words[-1]}\n"
    info = shell.node.groups.describe(name)
    assert info is not None and (info.state, info.members) == ("Empty", ())
    assert "has no member" in shell.run("group", "remove-member", *words, code=1)


def test_below_a_prefix_there_are_other_groups(shell: Shell) -> None:
    assert shell.json("--below", "apart/", "group", "list") == []
