"""The dashboard in a real Chromium without a screen, by what a person sees and clicks.

Three nodes and the dashboard are processes of their own. The pictures of docs/dashboard.md are taken on the way;
`--write` puts them there.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

import raftmeta
import raftmeta.recipes
from tests.dashboard.pages import MARKUP, answers, named_nodes
from tests.doors.acceptance.trial import Trial
from tests.doors.chromium import Page, chromium
from tests.processes.cluster import Cluster
from tests.processes.program import Program
from tests.processes.remote import ROOT
from tests.processes.waiting import free_addresses, wait_until

NAMES = ("broker-1", "broker-2", "broker-3")
START_S = 60.0
LEARN_S = 30.0
PICTURES = ROOT / "docs" / "pictures"
PICTURE_BYTES_MAX = 150_000
PLOT_SAMPLES = 45
LEVEL = 7  # of leases in a join; rights came with 3


def run(trial: Trial, *, write: bool = False) -> None:
    (trial.folder / "nodes").mkdir()
    cluster = Cluster(trial.folder / "nodes", names=NAMES, serves_clients=True)
    with cluster, raftmeta.Client(cluster.url) as client:
        _whole_cluster(trial, cluster, client)
    with named_nodes(trial.folder / "marked", (MARKUP,)) as (nodes, url):
        _markup(trial, nodes[MARKUP], url)
    if write:
        PICTURES.mkdir(exist_ok=True)
        for picture in trial.folder.glob("*.png"):
            shutil.copy(picture, PICTURES)


def _whole_cluster(trial: Trial, cluster: Cluster, client: raftmeta.Client) -> None:
    _fill(client)
    with _page(trial, cluster.url, "--allow-changes") as (page, url):
        with _busy(cluster.url), _holding(cluster.url):
            _overview(trial, page)
            _keys(trial, page, client)
            _holders(trial, page)
            _members(trial, page)
            with trial.check("a killed leader is seen, why another one leads, and its return"):
                _kill(page, cluster, trial.folder)
            with trial.check("nothing comes from elsewhere, and nothing fails"):
                strange = [one for one in page.requests if not one.startswith((url, "about:"))]
                assert not strange and not page.messages, (strange, page.messages)
        _rights(trial, page, client)


# --- the cluster ------------------------------------------------------------------------------------------------------
def _fill(client: raftmeta.Client) -> None:
    wait_until(lambda: client.status().feature_level >= LEVEL, timeout_s=LEARN_S, what="the newest level")
    for topic in ("clicks", "orders", "payments"):
        for number in range(12):
            client.put(f"topics/{topic}/{number}", f'{{"leader": "broker-{number % 3 + 1}", "isr": [1, 2, 3]}}')
    for value in ("604800000", "86400000", '{"retention.ms": 172800000,\n "policy": "delete"}'):
        client.put("config/topics.orders", value)
    client.put("config/brokers", "3")
    client.put("config/salt", bytes(range(0, 256, 3)))


@contextlib.contextmanager
def _busy(url: str) -> Iterator[None]:
    """Writes go on, some dozens a second, through whatever happens to the nodes."""
    ended = threading.Event()

    def write() -> None:
        draw = random.Random(1)
        with raftmeta.Client(url) as client:
            while not ended.wait(draw.expovariate(40)):
                with contextlib.suppress(raftmeta.RaftmetaError):
                    client.put(f"offsets/{draw.randrange(20)}", str(draw.random()))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextlib.contextmanager
def _holding(url: str) -> Iterator[None]:
    """Groups, an election and a lock of one client, as a program that coordinates brokers has them."""
    with raftmeta.Client(url, owner="coordinator") as client:
        for name in NAMES:
            client.group("brokers").join(name, f"{name}.example.org:9092")
            client.election("controller").nominate(name)
        with raftmeta.recipes.Lock(client, "reassignment").acquire(timeout_s=10), client.lease(60) as lease:
            how: dict[str, Any] = {"initial_delay_s": 0, "timeout_s": LEARN_S}
            me = client.groups.join("connect", {"words": b""}, lease=lease, instance="worker-1", **how)
            client.groups.sync(
                "connect", me.generation, me.member_id, {me.member_id: b"three tasks"}, instance="worker-1"
            )
            yield


@contextlib.contextmanager
def _page(trial: Trial, url: str, *options: str) -> Iterator[tuple[Page, str]]:
    """A browser in front of `raftmeta dashboard`, and the address of the page."""
    address = free_addresses(1)[0]
    command = [sys.executable, "-m", "raftmeta.cli", "--url", url, "dashboard", "--listen", address, *options]
    place = f"http://{address}/"
    folder = trial.folder / address.rpartition(":")[2]
    folder.mkdir()
    with Program(command, log=folder / "dashboard.log"), chromium(folder) as browser:
        with httpx.Client(base_url=place, trust_env=False) as http:
            wait_until(lambda: answers(http), timeout_s=START_S, what="the dashboard")
        page = browser.page()
        page.colours("light")
        page.size(1360, 900)
        page.go(place)
        yield page, place


def _picture(trial: Trial, page: Page, name: str) -> None:
    path = trial.folder / f"{name}.png"
    page.picture(path)
    assert 10_000 < path.stat().st_size < PICTURE_BYTES_MAX, path.stat().st_size


# --- what a person does -----------------------------------------------------------------------------------------------
def _overview(trial: Trial, page: Page) -> None:
    with trial.check("a healthy cluster is shown"):
        page.sees("Healthy", "Topology", "Leaders", *NAMES, "leader", "follower", "term 1", "3 of 3 voters here")
        assert page.value("document.title") == "default · raftmeta"
    with trial.check("plots move, and tell a moment under the mouse"):
        wait_until(lambda: _points(page) >= PLOT_SAMPLES, timeout_s=PLOT_SAMPLES * 4, what="samples in the plots")
        page.point(".plot svg")
        wait_until(lambda: page.value("!document.querySelector('.tip').hidden"), timeout_s=LEARN_S, what="the tip")
        page.sees("/s")
        page.point("header .brand")
    with trial.check("light and dark, wide and narrow"):
        _picture(trial, page, "overview")
        page.click("", "#theme")
        assert page.value("document.documentElement.dataset.theme") == "dark"
        page.click("", "#theme")
        page.size(420, 900)
        page.sees("Healthy", "Topology")
        assert page.value("document.documentElement.scrollWidth") <= 420
        page.size(1360, 900)


def _points(page: Page) -> int:
    return int(page.value("(document.querySelector('.plot .series')?.getAttribute('d') || '').split('L').length"))


def _keys(trial: Trial, page: Page, client: raftmeta.Client) -> None:
    with trial.check("keys: folders, a value, its history"):
        page.click("Keys", "nav a")
        page.click("config/", "td.folder")
        page.click("topics.orders", "td.key")
        page.sees(
            "The key was created there.", "version 3", "version 2", "version 1", '"policy": "delete"', "604800000"
        )
    with trial.check("keys: changes while they happen"):
        page.click("Watch this prefix", "button")
        page.sees("watching config/")
        client.put("config/brokers", "4")
        client.put("elsewhere", "unseen")
        client.delete("config/brokers")
        page.sees("put", "delete", "config/brokers")
        assert "unseen" not in page.text()
        _picture(trial, page, "keys")
        client.put("config/brokers", "3")
    with trial.check("keys: bytes that are no text, and the past"):
        page.click("salt", "td.key")
        page.sees("00000000  00 03 06 09")
        revision = client.put("config/gone", "as it was").revision
        client.delete("config/gone")
        page.write("#keys-revision", str(revision))
        page.click("Show", "button")
        page.click("gone", "td.key")
        page.sees("as it was")
        page.write("#keys-prefix", "topics/orders/")
        page.write("#keys-revision", "")
        page.click("Show", "button")
        page.sees("12 shown")
        page.click("topics/", "#keys-path button")
        page.sees("payments/")


def _holders(trial: Trial, page: Page) -> None:
    with trial.check("holders: groups, elections, locks, leases"):
        page.click("Groups & leases", "nav a")
        page.sees(
            "controller", "brokers", "broker-3.example.org:9092", "reassignment", "elections/controller", "8 leases"
        )
        page.sees("3 members", "leads", "waits", "connect", "Stable", "generation 1, words", "assignment 11 B")
        page.click("", "#theme")
        _picture(trial, page, "holders-dark")
        page.click("", "#theme")


def _role(page: Page, name: str) -> str:
    return str(page.value(f"document.querySelector(\"tr[data-member='{name}']\").cells[2].textContent"))


def _follower(page: Page) -> str:
    rows = "[...document.querySelectorAll('tr[data-member]')]"
    found = page.value(f"{rows}.find((row) => row.cells[3].textContent === 'follower')?.dataset.member || ''")
    return str(found)


def _members(trial: Trial, page: Page) -> None:
    with trial.check("members: a change needs the name, typed"):
        page.click("Members", "nav a")
        name = wait_until(lambda: _follower(page), timeout_s=LEARN_S, what="a follower")
        row = f"tr[data-member='{name}'] button"
        _picture(trial, page, "members")
        page.click("Demote", row)
        page.sees("Take the vote of this member", f"Type {name} to confirm")
        page.write("#confirm-input", "broker")
        page.enter()
        assert page.value("document.querySelector('#confirm').open && document.querySelector('#confirm-do').disabled")
        page.click("Cancel", "#confirm button")
        page.sees_no("Take the vote of this member")
        assert _role(page, name) == "voter"
        page.click("Demote", row)
        page.write("#confirm-input", name)
        page.click("Demote", "#confirm button")
        page.sees(f"{name} is a standby now.")
        wait_until(lambda: _role(page, name) == "standby", timeout_s=LEARN_S, what="a standby")
        page.click("Promote", row)
        page.write("#confirm-input", name)
        page.enter()
        page.sees(f"{name} has a vote now.")
        wait_until(lambda: _role(page, name) == "voter", timeout_s=LEARN_S, what="a voter")
    with trial.check("members: the lead is handed over"):
        name = wait_until(lambda: _follower(page), timeout_s=LEARN_S, what="a follower")
        page.click("Make leader", f"tr[data-member='{name}'] button")
        page.write("#confirm-input", name)
        page.enter()
        page.sees(f"{name} leads now.")
        page.click("Overview", "nav a")
        page.sees("term 2")


def _kill(page: Page, cluster: Cluster, folder: Path) -> None:
    page.sees_no("leads now.")  # the message goes by itself
    killed = cluster.leader()
    name = next(one for one, node in cluster.nodes.items() if node is killed)
    killed.kill()
    page.sees("Degraded", f"Away: {name}", "away", timeout_s=LEARN_S)
    others = [one for one in NAMES if one != name]

    def leader() -> str:
        return str(page.value("document.querySelector('.tile .value').textContent"))

    wait_until(lambda: leader() in others, timeout_s=LEARN_S, what="another leader")
    page.sees(f"{name}'s process was gone: its address refused connections", timeout_s=LEARN_S)
    page.picture(folder / "away.png")
    cluster.start()
    page.sees("Healthy", timeout_s=LEARN_S)


def _rights(trial: Trial, page: Page, client: raftmeta.Client) -> None:
    client.auth.put_user("boss", "of the house")
    client.auth.put_user("viewer", "only looks")
    client.auth.put_role("all")
    client.auth.put_role("config")
    client.auth.grant("all", "admin")
    client.auth.grant("config", "read", "watch", prefix="config/")
    client.auth.bind("boss", "all")
    client.auth.bind("viewer", "config")
    with trial.check("rights: they are turned on, and the page asks who is there"):
        client.auth.enable()  # the last thing that this client may do
        page.sees("Log in to default", "Password", "Token", timeout_s=LEARN_S)
        page.write("#login-user", "viewer")
        page.write("#login-password", "wrong")
        page.click("Log in", "#login-button")
        page.sees("name and password do not fit")
        page.write("#login-password", "only looks")
        page.enter()
        page.sees("viewer", "Log out", "Healthy")
    with trial.check("rights: a user sees what it may read, and changes nothing"):
        page.click("Groups & leases", "nav a")
        page.sees("Not shown: ")
        page.click("Keys", "nav a")
        page.write("#keys-prefix", "config/")
        page.click("Show", "button")
        page.click("topics.orders", "td.key")
        page.sees("604800000")
        page.click("Members", "nav a")
        name = wait_until(lambda: _follower(page), timeout_s=LEARN_S, what="a follower")
        page.click("Make leader", f"tr[data-member='{name}'] button")
        page.write("#confirm-input", name)
        page.enter()
        page.sees("has no right to the operation")
    with trial.check("rights: a token is a proof, and a logout ends the session"):
        with raftmeta.Client(client.url, user="boss", password="of the house") as boss:
            token = boss.auth.token(600)
        page.click("Log out", "button")
        page.sees("Log in to default")
        page.click("Token", "[role=tab]")
        page.write("#login-token", token)
        page.enter()
        page.sees("boss", "Log out", "Healthy")


def _markup(trial: Trial, node: raftmeta.Node, url: str) -> None:
    """A member, keys, values, groups and candidates whose names are markup, on each view."""
    image = "<img src=x onerror=window.harmed=1>"
    node.put(f"m/{MARKUP}", image)
    node.put(f"m/{image}", MARKUP)
    node.put(b"m/\xff<b>", b"\x00<b>")
    node.group(image).join(MARKUP, image)
    node.election(MARKUP).nominate(image, MARKUP)
    with trial.check("markup is text everywhere"), _page(trial, url, "--allow-changes") as (page, place):
        page.sees("Healthy", MARKUP[:12])
        page.click("Members", "nav a")
        page.sees(MARKUP)
        page.click("Demote", "tr[data-member] button")
        page.sees(f"Type {MARKUP} to confirm")
        page.click("Cancel", "#confirm button")
        page.click("Groups & leases", "nav a")
        page.sees(MARKUP, image, "1 member")
        page.click("Keys", "nav a")
        page.write("#keys-prefix", "m/")
        page.click("", "#keys-flat")
        page.click("Show", "button")
        page.sees(MARKUP, image, "m/\\xff<b>".removeprefix("m/"))
        page.click(image, "td.key")
        page.sees("The key was created there.")
        page.click("Watch this prefix", "button")
        page.sees("watching m/")
        node.put(f"m/{MARKUP}", f"{image} again")
        page.sees(f"{image} again")
        harm: Any = page.value("[window.harmed, document.images.length, document.scripts.length]")
        assert harm == [None, 0, 1], harm
        assert not page.messages and all(one.startswith((place, "about:")) for one in page.requests), page.messages
