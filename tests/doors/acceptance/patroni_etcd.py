"""Three members of Patroni with PostgreSQL elect their leader through etcd's JSON gateway (patroni_members)."""

from __future__ import annotations

import base64
import json
import urllib.request
from typing import Any

from tests.doors.acceptance.trial import Trial
from tests.doors.etcd_servers import ETCD_KINDS
from tests.doors.patroni_members import SCOPE, Members, run_members

ASK_S = 20.0


def run(trial: Trial) -> None:
    with ETCD_KINDS[trial.kind](trial.folder / "servers") as servers:
        store = {"etcd3": {"hosts": list(servers.addresses)}}
        run_members(trial, servers, store, lambda members: _check_keys(members, servers.addresses[0]))


def _check_keys(members: Members, address: str) -> None:
    """The leader's key has the leader's own lease, as each member's key has."""
    place = f"/service/{SCOPE}/"
    found = _range(address, place)
    leader = found[f"{place}leader"]
    name = base64.b64decode(leader["value"]).decode()
    assert name == members.leader().name, name
    assert leader["lease"] == found[f"{place}members/{name}"]["lease"] != "0"
    wanted = [f"{place}members/{member.name}" for member in members.all]
    assert [key for key in sorted(found) if key.startswith(f"{place}members/")] == wanted


def _range(address: str, prefix: str) -> dict[str, dict[str, Any]]:
    """All keys below a prefix that ends with a slash."""
    end = f"{prefix[:-1]}0"  # the byte behind a slash
    asked = {name: base64.b64encode(key.encode()).decode() for name, key in (("key", prefix), ("range_end", end))}
    url = f"http://{address}/v3/kv/range"
    with urllib.request.urlopen(url, data=json.dumps(asked).encode(), timeout=ASK_S) as answer:
        return {base64.b64decode(one["key"]).decode(): one for one in json.load(answer)["kvs"]}
