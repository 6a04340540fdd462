"""The dashboard over a real cluster of three nodes: what the page is told, and what it may change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import raftmeta
from raftmeta.dashboard.app import FILES
from raftmeta.dashboard.shapes import key_id
from tests.dashboard.pages import ANSWER_S, MARKUP, NAMES, Visitor, named_nodes, visiting
from tests.node.nodes import QUICK
from tests.processes.waiting import free_addresses

MARKUP_OBSERVER = "<b>observer</b>"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, raftmeta.Node], str]]:
    with named_nodes(tmp_path_factory.mktemp("dashboard")) as found:
        yield found


@pytest.fixture(scope="module")
def visitor(cluster: tuple[dict[str, raftmeta.Node], str]) -> Iterator[Visitor]:
    with visiting(cluster[1], allow_changes=True) as found:
        assert found.enter()["user"] == ""  # rights are off
        yield found


def node_of(cluster: tuple[dict[str, raftmeta.Node], str]) -> raftmeta.Node:
    return cluster[0]["a"]


def is_whole(told: dict[str, Any]) -> bool:
    """All members answer and are connected, and the one that they call the leader leads."""
    members = [one for one in told["picture"]["members"] if one["role"]]
    leaders = [one["name"] for one in members if one.get("protocol_role") == "leader"]
    links = [up for one in members for up in one.get("links", {}).values()]
    return leaders == [told["picture"]["leader"]] and len(links) == 6 and all(links)


def test_the_page_and_its_files_are_served_and_nothing_else_may_load(visitor: Visitor) -> None:
    """Each file has its kind; the policy names no other place, no inline script and no frame."""
    for path, (_, kind) in FILES.items():
        answer = visitor.http.get(path)
        assert (answer.status_code, answer.headers["Content-Type"]) == (200, kind)
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        text = answer.text.replace("http://www.w3.org/", "")
        assert "http://" not in text and "https://" not in text, path
        assert "innerHTML" not in text and "style=" not in text and " onclick=" not in text
    assert visitor.http.get("/page/app.py").status_code == 404
    assert "Content-Security-Policy" in visitor.http.get("/none").headers


def test_the_picture_says_who_feeds_whom(
    cluster: tuple[dict[str, raftmeta.Node], str], visitor: Visitor, tmp_path: Path
) -> None:
    """An observer stands beside the members, with its feeder and its lag, and is gone a while after it ended."""
    seed = node_of(cluster)
    observer = raftmeta.Node(
        MARKUP_OBSERVER,
        role="observer",
        seeds=[f"a={seed.identity.listen}"],
        listen=free_addresses(1)[0],
        data_dir=tmp_path / "observer",
        config=raftmeta.Config(**QUICK),
    )
    with observer:
        observer.ready(timeout_s=ANSWER_S)
        told = visitor.until("cluster", "cluster", lambda told: told["picture"]["observers"])
    (shape,) = told["picture"]["observers"]
    assert (shape["name"], shape["lag"]) == (MARKUP_OBSERVER, 0) and shape["feeder"] in NAMES
    visitor.until("cluster", "cluster", lambda told: not told["picture"]["observers"])


def test_the_picture_has_every_member_its_role_and_its_links(visitor: Visitor) -> None:
    told = visitor.until("cluster", "cluster", is_whole)
    picture = told["picture"]
    assert [member["name"] for member in picture["members"]] == sorted(NAMES)
    assert {member["role"] for member in picture["members"]} == {"voter"}
    assert picture["quorum"] == {"voters": 3, "needed": 2, "here": 3}
    leaders = [member for member in picture["members"] if member["is_leader"]]
    assert [one["protocol_role"] for one in leaders] == ["leader"] and leaders[0]["name"] == picture["leader"]
    for member in picture["members"]:
        assert member["links"] == {name: True for name in NAMES if name != member["name"]}
        assert member["lag"] >= 0 and member["version"] == raftmeta.__version__
    assert picture["reigns"][0]["leader"] == picture["leader"] and picture["reigns"][0]["ended_s"] is None


def test_samples_have_rates_and_times_of_reads(visitor: Visitor, cluster: tuple[dict[str, raftmeta.Node], str]) -> None:
    """A write between two samples shows as changes; each node has served a linearizable read."""
    with visitor.listening("cluster") as events:
        for name, told in events:
            node_of(cluster).put("rate", "1")
            if name != "cluster":
                continue
            sample = told["sample"]
            reads = [values["read_ms"] for values in sample["nodes"].values()]
            if sample["changes_s"] and len(reads) == 3 and all(reads):
                break
    assert sample["entries_s"] >= sample["changes_s"] > 0
    assert {values["bytes_s"] is not None for values in sample["nodes"].values()} == {True}


def test_a_handed_over_lead_is_seen(visitor: Visitor) -> None:
    """By the button: the server does it, and the history of leaders has both."""
    before = visitor.until("cluster", "cluster", is_whole)["picture"]
    name = next(one["name"] for one in before["members"] if not one["is_leader"])
    assert visitor.change(action="transfer", name=name, confirmed=name).json() == {"done": "transfer", "name": name}
    told = visitor.until("cluster", "cluster", lambda told: told["picture"]["leader"] == name)
    last, *earlier = told["picture"]["reigns"]
    assert last["leader"] == name and last["term"] > before["term"]
    assert before["leader"] in [one["leader"] for one in earlier] and earlier[0]["ended_s"] is not None

    def reign(told: dict[str, Any]) -> dict[str, Any]:
        return next(one for one in told["picture"]["reigns"] if one["term"] == last["term"])

    caused = reign(visitor.until("cluster", "cluster", lambda told: reign(told)["cause"]))
    assert caused["cause"].endswith(f" was asked to transfer its lead to {name}")
    assert caused["confidence"] == "certain"


def test_keys_are_shown_as_folders_and_pages(visitor: Visitor, cluster: tuple[dict[str, raftmeta.Node], str]) -> None:
    node = node_of(cluster)
    node.put_many([(f"t/{number:03}/x", b"v") for number in range(150)])
    node.put("t/one", "1")
    rows: list[dict[str, Any]] = []
    start = ""
    while True:
        told = visitor.ask("keys", prefix=key_id(b"t/"), start=start)
        assert len(told["rows"]) <= 100
        rows += told["rows"]
        start = told["next"]
        if not start:
            break
    assert [row["text"] for row in rows] == [*(f"t/{number:03}/" for number in range(150)), "t/one"]
    assert {row["kind"] for row in rows[:150]} == {"folder"} and rows[150]["line"] == "1"
    flat = visitor.ask("keys", prefix=key_id(b"t/"), flat="true")
    assert flat["rows"][0]["text"] == "t/000/x" and flat["next"]


def test_markup_and_bytes_stay_what_they_are(visitor: Visitor, cluster: tuple[dict[str, raftmeta.Node], str]) -> None:
    """JSON has them as text; a key that is no text has escapes, and is asked for by its bytes."""
    node = node_of(cluster)
    node.put(f"x/{MARKUP}", MARKUP)
    node.put(b"x/\xff\x00\n", bytes(range(256)))
    answer = visitor.http.get("api/keys", params={"prefix": key_id(b"x/"), "flat": "true"})
    assert answer.headers["Content-Type"] == "application/json"
    marked, raw = answer.json()["rows"]
    assert (marked["text"], marked["line"]) == (f"x/{MARKUP}", MARKUP)
    assert raw["text"] == "x/\\xff\\x00\\n" and raw["id"] == key_id(b"x/\xff\x00\n")
    record = visitor.ask("key", key=raw["id"])["record"]
    assert not record["value"]["is_text"] and record["value"]["text"].startswith("00000000  00 01 02 ")
    long = "é" * 40_000
    node.put("x/long", long)
    value = visitor.ask("key", key=key_id(b"x/long"))["record"]["value"]
    assert value["is_text"] and value["is_cut"] and value["bytes"] == 80_000
    assert long.startswith(value["text"]) and len(value["text"]) == 32 * 1024


def test_the_history_of_a_key_goes_back_to_its_creation(
    visitor: Visitor, cluster: tuple[dict[str, raftmeta.Node], str]
) -> None:
    node = node_of(cluster)
    node.put("h/k", "of an earlier life")
    node.delete("h/k")
    revisions = [int(node.put("h/k", str(number))) for number in range(25)]
    told = visitor.ask("history", key=key_id(b"h/k"))
    assert told["end"] == "more" and len(told["values"]) == 20
    seen = [*told["values"]]
    told = visitor.ask("history", key=key_id(b"h/k"), revision=seen[-1]["revision"] - 1)
    seen += told["values"]
    assert told["end"] == "created"
    assert [one["revision"] for one in seen] == revisions[::-1]
    assert [one["value"]["text"] for one in seen] == [str(number) for number in range(24, -1, -1)]
    past = visitor.ask("key", key=key_id(b"h/k"), revision=revisions[3])["record"]
    assert (past["value"]["text"], past["version"]) == ("3", 4)
    assert visitor.ask("key", key=key_id(b"h/k"), revision=revisions[0] - 1)["record"] is None
    node.compact(revisions[10])
    assert visitor.ask("history", key=key_id(b"h/k"), revision=revisions[12])["end"] == "compacted"
    refused = visitor.http.get("api/key", params={"key": key_id(b"h/k"), "revision": revisions[5]})
    assert refused.status_code == 409 and "no longer kept" in refused.json()["message"]


def test_changes_below_a_prefix_are_told_while_they_happen(
    visitor: Visitor, cluster: tuple[dict[str, raftmeta.Node], str]
) -> None:
    node = node_of(cluster)
    with visitor.listening("keys", prefix=key_id(b"w/")) as events:
        assert next(events) == ("watching", {})
        seen: list[dict[str, Any]] = []
        node.put("elsewhere", "1")
        first = int(node.put("w/a", MARKUP))
        node.delete("w/a")
        for name, told in events:
            assert name == "changes"
            seen += told["changes"]
            if len(seen) == 2:
                break
    assert [(one["type"], one["text"]) for one in seen] == [("put", "w/a"), ("delete", "w/a")]
    assert (seen[0]["line"], seen[0]["revision"]) == (MARKUP, first)


def test_holders_are_shown_with_the_time_that_is_left(
    visitor: Visitor, cluster: tuple[dict[str, raftmeta.Node], str]
) -> None:
    """Groups, elections, locks and worker groups of a client, each place with its lease."""
    with raftmeta.Client(cluster[1], owner="w/1") as client:
        client.group("brokers/eu").join("broker-1", b"host:1")
        client.election("controller").nominate("broker-1")
        client.election("controller").nominate("broker-2")
        told = visitor.until("holders", "holders", lambda told: len(told["leases"].get("rows", ())) >= 3)
        places = {(one["kind"], one["name"]): one["holders"] for one in told["places"]["rows"]}
        member = places["groups", "brokers/eu"][0]
        assert (member["name"], member["owner"], member["data"]) == ("broker-1", "client w/1", "host:1")
        first, second = places["elections", "controller"]
        assert (first["name"], second["name"]) == ("broker-1", "broker-2") and first["epoch"] < second["epoch"]
        leases = {one["id"]: one for one in told["leases"]["rows"]}
        for holder in (member, first, second):
            assert 0 <= holder["left_ms"] <= leases[holder["lease"]]["ttl_ms"]
        assert leases[member["lease"]]["holds"] == ["groups/brokers/eu"]
        assert told["workers"] == {"rows": [], "is_cut": False}


def test_a_member_loses_its_vote_and_gets_it_back(
    visitor: Visitor, cluster: tuple[dict[str, raftmeta.Node], str]
) -> None:
    """A name that is markup does as any other. The second name must be the first one's."""

    def role(told: dict[str, Any]) -> str:
        return next((one["role"] for one in told["picture"]["members"] if one["name"] == MARKUP), "")

    assert visitor.change(action="demote", name=MARKUP, confirmed="a").status_code == 400
    assert visitor.change(action="demote", name=MARKUP).status_code == 400
    assert visitor.change(action="found", name=MARKUP, confirmed=MARKUP).status_code == 400
    assert role(visitor.until("cluster", "cluster", is_whole)) == "voter"
    assert visitor.change(action="demote", name=MARKUP, confirmed=MARKUP).status_code == 200
    visitor.until("cluster", "cluster", lambda told: role(told) == "standby")
    assert visitor.change(action="promote", name=MARKUP, confirmed=MARKUP).status_code == 200
    visitor.until("cluster", "cluster", lambda told: role(told) == "voter")


def test_wrong_questions_name_the_field(visitor: Visitor) -> None:
    for path, query, field in (
        ("keys", {"prefix": "!"}, "prefix"),
        ("keys", {"revision": "x"}, "revision"),
        ("key", {"revision": "9" * 30, "key": "aw"}, "revision"),
        ("history", {"key": "a" * 9000}, "key"),
    ):
        answer = visitor.http.get(f"api/{path}", params=query)
        assert answer.status_code == 400 and field in answer.json()["message"], (path, query)
    head = {"Raftmeta-Csrf": visitor.csrf}
    for content, kind in ((b"{", "application/json"), (b"[]", "application/json"), (b"{}", "text/plain")):
        answer = visitor.http.post("api/members", content=content, headers={**head, "Content-Type": kind})
        assert answer.status_code == 400, content
    huge = visitor.http.post("api/members", json={"action": "x" * 100_000}, headers=head)
    assert huge.status_code == 400 and "bytes" in json.loads(huge.text)["message"]
