"""Three members of Patroni with PostgreSQL elect their leader through ZooKeeper, over kazoo (patroni_members)."""

from __future__ import annotations

from tests.doors.acceptance.trial import Trial
from tests.doors.patroni_members import SCOPE, START_S, Members, run_members


def run(trial: Trial) -> None:
    with trial.servers() as servers:
        store = {"zookeeper": {"hosts": list(servers.addresses)}}
        run_members(trial, servers, store, lambda members: _check_znodes(members, servers.connect))


def _check_znodes(members: Members, connect: str) -> None:
    """The leader's key is an ephemeral of the leader's own session, as each member's is."""
    from kazoo.client import KazooClient

    client = KazooClient(connect)
    client.start(timeout=START_S)
    try:
        place = f"/service/{SCOPE}"
        name, stat = client.get(f"{place}/leader")
        leader = members.leader()
        assert name.decode() == leader.name, name
        assert stat.ephemeralOwner == client.get(f"{place}/members/{leader.name}")[1].ephemeralOwner != 0
        assert sorted(client.get_children(f"{place}/members")) == [member.name for member in members.all]
    finally:
        client.stop()
        client.close()
