"""etcd3gw, a client of etcd's JSON gateway, on the server that the first two arguments name. A line for each check."""

from __future__ import annotations

import sys
import threading
from typing import Any

import etcd3gw

host, port = sys.argv[1], int(sys.argv[2])
client = etcd3gw.client(host=host, port=port, api_path="/v3/", timeout=20)


def keys() -> None:
    assert client.put("gw/a", "1")
    assert client.get("gw/a") == [b"1"]
    assert client.create("gw/b", "2")
    assert not client.create("gw/b", "3")
    assert client.replace("gw/a", "1", "4")
    assert {meta["key"]: value for value, meta in client.get_prefix("gw/")} == {b"gw/a": b"4", b"gw/b": b"2"}
    assert client.delete("gw/b")
    assert client.get("gw/b") == []


def leases() -> None:
    lease = client.lease(ttl=60)
    client.put("gw/leased", "1", lease=lease)
    assert 0 < lease.ttl() <= 60
    assert lease.refresh() == 60
    assert lease.keys() == [b"gw/leased"]
    assert lease.revoke()
    assert client.get("gw/leased") == []


def watches() -> None:
    events, cancel = client.watch("gw/watched")
    client.put("gw/watched", "1")
    client.delete("gw/watched")
    first, second = next(events), next(events)
    cancel()
    assert (first["kv"]["value"], second["type"]) == (b"1", "DELETE")
    seen: list[Any] = []
    threading.Timer(0.2, lambda: client.put("gw/once", "1")).start()
    seen.append(client.watch_once("gw/once", timeout=20))
    assert seen[0]["kv"]["key"] == b"gw/once"


def locks() -> None:
    with client.lock("gw/lock", ttl=30) as held:
        assert held.is_acquired()
        other = client.lock("gw/lock", ttl=30)
        assert not other.acquire()
    assert not held.is_acquired()


def transactions() -> None:
    client.put("gw/txn", "1")
    told = client.transaction(
        {
            "compare": [
                {"key": etcd3gw.utils._encode("gw/txn"), "result": "EQUAL", "target": "VERSION", "version": "1"},
            ],
            "success": [{"request_delete_range": {"key": etcd3gw.utils._encode("gw/txn")}}],
            "failure": [],
        }
    )
    assert told["succeeded"]
    assert told["responses"][0]["response_delete_range"]["deleted"] == "1"


for check in (keys, leases, watches, locks, transactions):
    check()
    print("ok", check.__name__, flush=True)
