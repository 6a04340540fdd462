"""The REST protocol, request by request (docs/rest.md)."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.rest.servers import asking, own_server

STREAM = {"Accept": "text/event-stream"}


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with own_server(tmp_path_factory.mktemp("rest")) as address, asking(address) as client:
        yield client


def session(http: httpx.Client, ttl_s: float = 30.0) -> dict[str, str]:
    """The header of a new session."""
    answer = http.post("/v1/sessions", json={"ttl_s": ttl_s})
    assert answer.status_code == 201
    return {"Raftmeta-Session": answer.json()["session"]}


def fate(answer: httpx.Response) -> tuple[int, str, str]:
    told = answer.json()
    assert told["message"]
    return answer.status_code, told["error"], told["fate"]


def test_a_key_is_made_changed_and_removed_under_preconditions(http: httpx.Client) -> None:
    assert fate(http.get("/v1/keys/k/1"))[0::2] == (404, "refused")
    made = http.put("/v1/keys/k/1", content=b"\0one", headers={"If-None-Match": "*"})
    assert (made.status_code, made.headers["ETag"]) == (201, f'"{made.json()["revision"]}"')
    assert fate(http.put("/v1/keys/k/1", headers={"If-None-Match": "*"})) == (412, "key_exists", "refused")
    found = http.get("/v1/keys/k/1")
    assert (found.content, found.headers["ETag"]) == (b"\0one", made.headers["ETag"])
    assert http.get("/v1/keys/k/1", headers={"If-None-Match": found.headers["ETag"]}).status_code == 304
    changed = http.put("/v1/keys/k/1", content=b"two", headers={"If-Match": found.headers["ETag"]})
    assert changed.json()["revision"] > made.json()["revision"]
    stale = {"If-Match": made.headers["ETag"]}
    assert fate(http.put("/v1/keys/k/1", headers=stale)) == (412, "compare_failed", "refused")
    assert fate(http.delete("/v1/keys/k/1", headers=stale)) == (412, "compare_failed", "refused")
    assert http.get("/v1/keys/k/1").content == b"two"
    assert http.delete("/v1/keys/k/1").status_code == 200
    assert fate(http.delete("/v1/keys/k/1")) == (404, "key_missing", "refused")
    assert fate(http.put("/v1/keys/k/1", headers={"If-Match": "*"})) == (404, "key_missing", "refused")


def test_keys_are_listed_in_order_below_a_namespace(http: httpx.Client) -> None:
    space = {"Raftmeta-Namespace": "app%2F"}
    for key in ("b", "a%20c", "ä"):
        assert http.put(f"/v1/keys/{key}", content=key.encode(), headers=space).status_code == 200
    found = http.get("/v1/keys", headers=space).json()
    assert [one["key"] for one in found["keys"]] == ["a c", "b", "ä"]
    whole = http.get("/v1/keys", params={"prefix": "app/", "keys_only": "true"}).json()
    assert [one["key"] for one in whole["keys"]] == ["app/a c", "app/b", "app/ä"]
    assert base64.b64decode(found["keys"][1]["value"]) == b"b" and "value" not in whole["keys"][0]


def test_a_transaction_does_all_or_nothing(http: httpx.Client) -> None:
    value = base64.b64encode(b"v").decode()
    operations = [{"op": "create", "key": "t/1", "value": value}, {"op": "put", "key": "t/2", "value": value}]
    done = http.post("/v1/transactions", json={"checks": [{"key": "t/1", "revision": 0}], "operations": operations})
    revision = done.json()["revision"]
    assert {one["revision"] for one in http.get("/v1/keys?prefix=t/").json()["keys"]} == {revision}
    for checks, wrong in (
        ([{"key": "t/1", "revision": 0}], "check_failed"),
        ([{"key": "t/1", "exists": False}], "check_failed"),
        ([], "key_exists"),
    ):
        body = {"checks": checks, "operations": [{"op": "delete", "key": "t/2"}, operations[0]]}
        answer = http.post("/v1/transactions", json=body)
        assert fate(answer) == (412, wrong, "refused")
        assert wrong == "key_exists" or answer.json()["found"][0]["revision"] == revision
    assert http.get("/v1/keys/t/2").content == b"v"


def test_a_request_that_comes_again_is_done_once(http: httpx.Client) -> None:
    """Also when its fence was lost meanwhile: it was done before."""
    own = session(http)
    member = http.put("/v1/groups/once/members/a", headers=own).json()
    said = {**own, "Idempotency-Key": "0/1", "Raftmeta-Fence": member["fence"]}
    first = http.put("/v1/keys/once", content=b"1", headers=said)
    assert "Idempotency-Replayed" not in first.headers
    http.put("/v1/keys/once", content=b"of another", headers={})
    assert http.delete("/v1/groups/once/members/a", headers=own).status_code == 204
    again = http.put("/v1/keys/once", content=b"1", headers=said)
    assert (again.json(), again.headers["Idempotency-Replayed"]) == (first.json(), "true")
    assert http.get("/v1/keys/once").content == b"of another"
    assert fate(http.put("/v1/keys/once", content=b"2", headers=said)) == (422, "command_refused", "refused")
    newer = {**said, "Idempotency-Key": "0/2"}
    assert fate(http.put("/v1/keys/once", content=b"2", headers=newer)) == (409, "fenced", "refused")
    del newer["Raftmeta-Fence"]
    assert http.put("/v1/keys/once", content=b"2", headers=newer).status_code == 200
    assert fate(http.put("/v1/keys/once", content=b"1", headers=said)) == (409, "superseded", "outcome_unknown")


def test_a_session_takes_all_with_it(http: httpx.Client) -> None:
    own = session(http)
    place = f"/v1/sessions/{own['Raftmeta-Session']}"
    assert http.put(place).json()["ttl_s"] == 30
    member = http.put("/v1/groups/g/members/a", content=b"data", headers=own).json()
    assert http.put("/v1/keys/mine", params={"ephemeral": "true"}, headers=own).status_code == 200
    assert http.delete(place).status_code == 204
    assert http.get("/v1/groups/g").json()["members"] == []
    assert http.get("/v1/keys/mine").status_code == 404
    assert http.put(place).status_code == 404
    assert fate(http.put("/v1/groups/g/members/a", headers=own)) == (409, "lease_expired", "refused")
    fenced = http.put("/v1/keys/x", headers={"Raftmeta-Fence": member["fence"]})
    assert fate(fenced) == (409, "fenced", "refused")


def test_places_belong_to_sessions_and_owners(http: httpx.Client) -> None:
    first, second, later = session(http), session(http), session(http)
    place = "/v1/groups/own/members/a%2Fb"
    made = http.put(place, content=b"1", headers=first, params={"owner": "o"})
    again = http.put(place, content=b"1", headers=first, params={"owner": "o"})
    assert (made.status_code, again.status_code, made.json()) == (201, 200, again.json())
    assert fate(http.put(place, headers=second)) == (409, "id_conflict", "refused")
    assert fate(http.delete(place, headers=second)) == (409, "id_conflict", "refused")
    taken = http.put(place, content=b"2", headers=later, params={"owner": "o"}).json()
    assert taken["epoch"] > made.json()["epoch"]
    members = http.get("/v1/groups/own").json()["members"]
    assert [(one["id"], base64.b64decode(one["data"])) for one in members] == [("a/b", b"2")]


def test_candidates_lead_in_the_order_of_their_nominations(http: httpx.Client) -> None:
    first, second = session(http), session(http)
    assert http.get("/v1/elections/e").json()["leader"] is None
    assert http.put("/v1/elections/e/candidates/a", headers=first).json()["is_leader"]
    assert not http.put("/v1/elections/e/candidates/b", headers=second).json()["is_leader"]
    found = http.get("/v1/elections/e").json()
    assert [one["id"] for one in found["candidates"]] == ["a", "b"] and found["leader"]["id"] == "a"
    assert http.delete("/v1/elections/e/candidates/a", headers=first).status_code == 204
    leader = http.get("/v1/elections/e").json()["leader"]
    assert leader["id"] == "b" and leader["epoch"] > found["leader"]["epoch"]


def test_changes_are_polled_and_streamed_from_a_revision(http: httpx.Client) -> None:
    after = http.put("/v1/keys/c/0").json()["revision"]
    assert http.get("/v1/changes", params={"prefix": "c/", "after": after, "wait_s": 0}).json()["changes"] == []
    put = http.put("/v1/keys/c/1", content=b"x").json()["revision"]
    http.put("/v1/keys/elsewhere")
    gone = http.delete("/v1/keys/c/0").json()["revision"]
    wanted = [("put", "c/1", put), ("delete", "c/0", gone)]
    assert polled(http, after, 2) == wanted
    assert streamed(http, {"prefix": "c/", "after": after}, STREAM, 2) == wanted
    assert streamed(http, {"prefix": "c/", "after": after}, {**STREAM, "Last-Event-ID": str(put)}, 1) == wanted[1:]
    assert fate(http.get("/v1/changes?prefix=c/"))[0::2] == (400, "not_executed")


def polled(http: httpx.Client, after: int, count: int) -> list[tuple[str, str, int]]:
    found: list[Any] = []
    while len(found) < count:
        told = http.get("/v1/changes", params={"prefix": "c/", "after": after, "wait_s": 20}).json()
        found, after = found + told["changes"], told["revision"]
    return [(one["type"], one["key"], one["revision"]) for one in found]


def streamed(
    http: httpx.Client, params: dict[str, Any], head: dict[str, str], count: int
) -> list[tuple[str, str, int]]:
    found: list[Any] = []
    with http.stream("GET", "/v1/changes", params=params, headers=head) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: "):
                found += json.loads(line.removeprefix("data: ")).get("changes", [])
            if len(found) >= count:
                break
    return [(one["type"], one["key"], one["revision"]) for one in found]


def test_wrong_requests_are_refused_by_name(http: httpx.Client) -> None:
    assert http.post("/v1/sessions", content=b"{}", headers={"Content-Type": "text/plain"}).status_code == 415
    for answer in (
        http.post("/v1/sessions", json={"ttl_s": 0}),
        http.post("/v1/transactions", json={"operations": [{"op": "guess", "key": "k"}]}),
        http.put("/v1/groups/g/members/m"),
        http.put("/v1/keys/k", headers={**session(http), "Idempotency-Key": "again"}),
    ):
        assert fate(answer)[::2] == (400, "not_executed") and answer.json()["field"]
    assert http.get("/v1/nothing").status_code == 404
