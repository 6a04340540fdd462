"""Programs that ask a server for everything, one request after the other: the same lines must come from every server.

Each takes an address and talks in a tree of its own. What two sessions do is ordered by waiting for events.
"""

from __future__ import annotations

import contextlib

from tests.doors.jute import NUMBERS
from tests.doors.raw import (
    CONTAINER,
    EPHEMERAL,
    OPEN_ACL,
    SEQUENTIAL,
    TTL,
    RawSession,
    at_version,
    change,
    creation,
    data,
    look,
    names,
    number,
    operations,
    rights,
    text,
)

READ_ONLY_ACL = ((1, "world", "anyone"),)
CREATOR_ACL = ((31, "auth", ""),)
BOTH = SEQUENTIAL | EPHEMERAL
FORGED = 0x1234_5678_9ABC_DEF0
PERSISTENT_WATCH, RECURSIVE_WATCH = 0, 1
CHILDREN_WATCHER, DATA_WATCHER, ANY_WATCHER = 1, 2, 3


def nodes(address: str) -> None:
    """Every kind of node, every reading, every refusal."""
    with RawSession(address) as one:
        one.do("create", creation("/nodes", b"root of all"))
        one.do("create2", creation("/nodes/plain", b"data"))
        one.do("create", creation("/nodes/null", None))
        one.do("create2", creation("/nodes/ephemeral", b"e", flags=EPHEMERAL))
        for name, flags in (("s-", SEQUENTIAL), ("s-", SEQUENTIAL), ("es-", BOTH), ("", SEQUENTIAL)):
            one.do("create2", creation(f"/nodes/{name}", b"", flags=flags))
        one.do("createContainer", creation("/nodes/container", b"c", flags=CONTAINER))
        one.do("createTTL", creation("/nodes/ttl", b"t", flags=TTL) + bytes(4) + number(600_000))
        for path in (
            "/nodes",
            *(f"/nodes/{name}" for name in ("plain", "null", "ephemeral", "container", "ttl", "no")),
        ):
            one.ask("exists", look(path))
            one.ask("getData", look(path))
            one.ask("getChildren", look(path))
            one.ask("getChildren2", look(path))
            one.ask("getACL", text(path))
            one.ask("getAllChildrenNumber", text(path))
        one.ask("getEphemerals", text("/nodes"))
        one.ask("getEphemerals", text("/"))
        one.ask("sync", text("/nodes"))
        one.ask("whoAmI")
        for version in (-1, 0, 1, 1):
            one.ask("setData", change("/nodes/plain", b"changed", version))
        one.ask("setData", change("/nodes/null", None))
        one.ask("getData", look("/nodes/null"))
        one.ask("setACL", text("/nodes/plain") + rights(READ_ONLY_ACL) + number(7))
        one.ask("setACL", text("/nodes/plain") + rights(()) + number(0))
        one.ask("create", creation("/nodes/plain"))
        one.ask("create", creation("/nowhere/child"))
        one.ask("create", creation("/nodes/ephemeral/child"))
        one.ask("create2", creation("/nodes/no-rights", acl=()))
        one.ask("create2", creation("/nodes/strange-rights", acl=((31, "digest", "no colon"),)))
        one.ask("create2", creation("/nodes/unknown-scheme", acl=((31, "strange", "who"),)))
        for version in (3, -1, -1):
            one.ask("delete", at_version("/nodes/null", version))
        one.ask("delete", at_version("/nodes"))
        one.close()


def bad_paths(address: str) -> None:
    """Paths that a server must refuse, in reading and in writing."""
    with RawSession(address) as one:
        for path in ("", "no-slash", "/end/", "/a//b", "/a/./b", "/a/../b", "/a\0b", "/a\x01", "/\uf000", "/ok-ä-日"):
            one.ask("create", creation(path))
        for path in ("/zookeeper", "/zookeeper/quota"):
            one.ask("exists", look(path))
        one.ask("delete", at_version("/"))
        one.ask("delete", at_version("/zookeeper"))
        one.ask("create", creation("/"))
        one.ask("create", creation("/strange-flags", flags=77))
        one.ask("delete", at_version("/ok-ä-日"))
        one.close()


def multis(address: str) -> None:
    """All or nothing, each operation seeing those before it; and reads together."""
    with RawSession(address) as one:
        one.do("create", creation("/multis", b""))
        one.ask("multi", operations([]))
        one.ask("multi", operations([("check", at_version("/multis", 0)), ("create", creation("/multis/a", b"1"))]))
        one.ask(
            "multi",
            operations(
                [
                    ("create2", creation("/multis/b", b"", flags=SEQUENTIAL)),
                    ("create", creation("/multis/b", b"", flags=BOTH)),
                    ("setData", change("/multis/a", b"2", 0)),
                    ("setData", change("/multis/a", b"3", 1)),
                    ("create", creation("/multis/gone", b"")),
                    ("create", creation("/multis/gone/child", b"")),
                    ("delete", at_version("/multis/gone/child")),
                    ("delete", at_version("/multis/gone", 0)),
                ]
            ),
        )
        one.ask("exists", look("/multis"))
        one.ask("getData", look("/multis/a"))
        for failing in (
            ("check", at_version("/multis/a", 9)),
            ("check", at_version("/multis/no", 0)),
            ("create", creation("/multis/a")),
            ("delete", at_version("/multis/no")),
            ("delete", at_version("/multis")),
            ("setData", change("/multis/a", b"", 77)),
        ):
            before, after = ("create", creation("/multis/half")), ("create", creation("/multis/other-half"))
            one.ask("multi", operations([before, failing, after]))
        one.ask("getChildren2", look("/multis"))
        one.ask(
            "multiRead",
            operations(
                [("getData", look("/multis/a")), ("getChildren", look("/multis/a")), ("getData", look("/multis/no"))]
            ),
        )
        one.close()


def watches(address: str) -> None:
    """One-shot, persistent and recursive watches: events before the reply that shows the change."""
    with RawSession(address) as one, RawSession(address) as other:
        one.do("create", creation("/watches", b""))
        one.ask("exists", look("/watches/node", watch=True))
        one.do("getChildren2", look("/watches", watch=True))
        one.do("create", creation("/watches/node", b""))
        one.do("getData", look("/watches/node", watch=True))
        one.do("getChildren", look("/watches/node", watch=True))
        one.do("setData", change("/watches/node", b"1"))
        one.do("setData", change("/watches/node", b"2"))
        one.do("create", creation("/watches/node/child", b""))
        one.do("getData", look("/watches/node/child", watch=True))
        one.do("exists", look("/watches/node/child", watch=True))
        one.do("getChildren", look("/watches/node/child", watch=True))
        other.do("delete", at_version("/watches/node/child"))
        one.event()
        one.ask("exists", look("/watches/node/child"))
        one.do("addWatch", text("/watches") + number(PERSISTENT_WATCH))
        one.do("addWatch", text("/watches/node") + number(RECURSIVE_WATCH))
        one.ask("addWatch", text("/watches") + number(9))
        one.do("create", creation("/watches/node/deep", b""))
        one.do("create", creation("/watches/node/deep/deeper", b""))
        one.do("setData", change("/watches/node/deep/deeper", b"x"))
        one.do("setData", change("/watches", b"x"))
        one.ask(
            "multi",
            operations(
                [
                    ("create", creation("/watches/m1", b"")),
                    ("setData", change("/watches/node/deep", b"y")),
                    ("delete", at_version("/watches/node/deep/deeper")),
                ]
            ),
        )
        for kind in ("checkWatches", "removeWatches", "removeWatches"):
            for path in ("/watches", "/watches/node", "/watches/no"):
                one.ask(kind, text(path) + number(ANY_WATCHER))
        one.ask("checkWatches", text("/watches") + number(CHILDREN_WATCHER))
        one.do("getData", look("/watches", watch=True))
        one.ask("removeWatches", text("/watches") + number(CHILDREN_WATCHER))
        one.ask("removeWatches", text("/watches") + number(DATA_WATCHER))
        one.do("setData", change("/watches", b"no event"))
        other.close()
        one.close()


def ended_sessions(address: str) -> None:
    """An ephemeral goes with its session, and a watcher is told; a session is resumed with its password only."""
    with RawSession(address) as one:
        one.do("create", creation("/sessions", b""))
        other = RawSession(address)
        other.do("create", creation("/sessions/mine", b"", flags=EPHEMERAL))
        other.do("create", creation("/sessions/also-", b"", flags=BOTH))
        one.do("getData", look("/sessions/mine", watch=True))
        one.do("getEphemerals", text("/sessions"))
        other.do("getEphemerals", text("/sessions"))
        other.close()
        one.event()
        one.do("getChildren2", look("/sessions"))
        lost = RawSession(address, session=other.session, password=other.password)
        assert lost.session == 0, "a closed session was resumed"
        lost.drop()
        forged = RawSession(address, session=FORGED, password=bytes(range(16)))
        assert forged.session == 0, "a session that never was has been resumed"
        forged.drop()
        kept = RawSession(address, timeout_ms=6_000)
        kept.do("create", creation("/sessions/kept", b"", flags=EPHEMERAL))
        kept.drop()
        wrong = RawSession(address, session=kept.session, password=bytes(16))
        assert wrong.session == 0, "a session was resumed without its password"
        wrong.drop()
        resumed = RawSession(
            address, timeout_ms=6_000, session=kept.session, password=kept.password, seen_zxid=kept.zxid
        )
        assert resumed.session == kept.session, "a session that lives was not resumed"
        resumed.do("getData", look("/sessions/kept"))
        resumed.close()
        one.do("getChildren2", look("/sessions"))
        one.close()


def set_watches(address: str) -> None:
    """After a reconnect the client tells its watches: those whose node changed meanwhile fire at once."""
    with RawSession(address) as other:
        for path in ("/rewatch", "/rewatch/changed", "/rewatch/same", "/rewatch/gone"):
            other.do("create", creation(path, b""))
        one = RawSession(address)
        one.do("sync", text("/rewatch"))
        seen = one.zxid
        one.drop()
        other.do("setData", change("/rewatch/changed", b"x"))
        other.do("delete", at_version("/rewatch/gone"))
        other.do("create", creation("/rewatch/come", b""))
        again = RawSession(address, session=one.session, password=one.password, seen_zxid=seen)
        relative = seen.to_bytes(8, "big")
        again.ask(
            "setWatches",
            relative
            + names(["/rewatch/changed", "/rewatch/same", "/rewatch/gone"])
            + names(["/rewatch/come", "/rewatch/never"])
            + names(["/rewatch", "/rewatch/same"]),
        )
        again.ask(
            "setWatches2",
            relative + names([]) + names([]) + names([]) + names(["/rewatch/same"]) + names(["/rewatch"]),
        )
        again.do("setData", change("/rewatch/same", b"y"))
        again.close()
        other.close()


def rights_of_sessions(address: str) -> None:
    """Who may do what: digest, world, auth; and what is answered to those who may not."""
    with RawSession(address) as owner, RawSession(address) as stranger:
        owner.do("create", creation("/rights", b""))
        owner.ask("create", creation("/rights/nobody", b"", acl=CREATOR_ACL))
        owner.ask("auth", number(0) + text("digest") + data(b"user:secret"))
        owner.ask("whoAmI")
        owner.do("create2", creation("/rights/own", b"mine", acl=CREATOR_ACL))
        owner.do("create2", creation("/rights/public", b"seen", acl=((31, "auth", ""), (1, "world", "anyone"))))
        owner.do("getACL", text("/rights/own"))
        for path in ("/rights/own", "/rights/public"):
            stranger.ask("exists", look(path))
            stranger.ask("getData", look(path))
            stranger.ask("getChildren2", look(path))
            stranger.ask("getACL", text(path))
            stranger.ask("setData", change(path, b"theirs"))
            stranger.ask("create", creation(f"{path}/child", b""))
            stranger.ask("setACL", text(path) + rights(OPEN_ACL) + number(-1))
            stranger.ask("multi", operations([("check", at_version(path, 0)), ("setData", change(path, b"x"))]))
        stranger.ask("delete", at_version("/rights/public"))
        owner.ask("setACL", text("/rights/own") + rights(READ_ONLY_ACL) + number(0))
        owner.ask("setACL", text("/rights/own") + rights(READ_ONLY_ACL) + number(0))
        owner.do("getACL", text("/rights/own"))
        stranger.ask("getData", look("/rights/own"))
        owner.close()
        stranger.ask("auth", number(0) + text("digest") + data(b"user:secret"))
        stranger.ask("getACL", text("/rights/own"))
        stranger.close()


def lists_of_rights(address: str) -> None:
    """Set lists of rights of every scheme, right and wrong, and read back the stored lists."""
    anyone = (1, "world", "anyone")
    with RawSession(address) as one:
        one.do("create", creation("/lists", b""))
        one.do("auth", number(0) + text("digest") + data(b"user:secret"))
        for turn, acl in enumerate(
            (
                (anyone, anyone),
                (anyone, (31, "world", "anyone"), anyone),
                (anyone, (31, "auth", ""), (31, "auth", "whoever")),
                (anyone, (0, "world", "anyone")),
                *(((31, "world", who),) for who in ("bob", "")),
                *((anyone, (31, "ip", who)) for who in ("10.0.0.0/8", "::1", "2001:db8::1/64", "2001:db8:0:0:0:0:0:1")),
                *((anyone, (31, "ip", who)) for who in ("x", "10.0.0", "10.0.0.0/", "10.0.0.0/33", "")),
                *((anyone, (31, "digest", who)) for who in ("a:b", ":b", "a", "a:", ":", "a:b:c", "")),
                *((anyone, (31, scheme, "who")) for scheme in ("super", "strange", "")),
            )
        ):
            error, _ = one.ask("create", creation(f"/lists/{turn}", b"", acl=acl))
            if error == 0:
                one.ask("getACL", text(f"/lists/{turn}"))
            one.ask("setACL", text("/lists") + rights([*acl, (31, "world", "anyone")]) + number(-1))
        one.close()


def odd_requests(address: str) -> None:
    """Paths that are none, modes that are none, requests that are cut: an answer, and the connection goes on."""
    with RawSession(address) as one:
        one.do("create", creation("/odd", b""))
        for path in ("/odd/", "/odd//b", "/odd/./b", "/odd/.", "/odd/x\x01", "//odd"):
            one.ask("create", creation(path))
        for path in ("", "no-slash", "/odd/", "/odd//b", "/odd/x\0y"):
            for kind in ("exists", "getData", "getChildren2"):
                one.ask(kind, look(path))
            for kind in ("getACL", "getEphemerals", "sync"):
                one.ask(kind, text(path))
            one.ask("setData", change(path, b""))
            one.ask("delete", at_version(path))
            one.ask("setACL", text(path) + rights(OPEN_ACL) + number(-1))
            one.ask("multi", operations([("check", at_version(path)), ("setData", change(path, b""))]))
        for mode in (-1, 0, 1, 2, 6, 9):
            one.ask("addWatch", text("/odd") + number(mode))
            one.ask("checkWatches", text("/odd") + number(mode))
        for mode in (0, 6, ANY_WATCHER):
            one.ask("removeWatches", text("/odd") + number(mode))
        for kind, flags in (("createContainer", 0), ("createContainer", 1), ("create2", CONTAINER), ("create", TTL)):
            one.ask(kind, creation(f"/odd/{kind}{flags}", flags=flags))
        one.close()


def cut_requests(address: str) -> None:
    """A body that ends before its fields do; only of reads, because a follower of 3.9.5 ends at a write that is cut."""
    with RawSession(address) as one:
        for name in ("getData", "exists", "getChildren2", "getACL", "addWatch", "checkWatches", "multiRead"):
            one.ask_number(NUMBERS[name], number(100))
        one.close()


def rejected(address: str) -> None:
    """Send requests that no server knows, and a check outside a multi. The server answers, then closes."""
    for opcode, body in (
        (NUMBERS["auth"], number(0) + text("no-such-scheme") + data(b"x")),
        (NUMBERS["auth"], number(0) + text("world") + data(b"anyone")),
        (NUMBERS["check"], at_version("/", 0)),
        *((opcode, b"") for opcode in (0, 10, 23, 99, 108, 500, 4711, -3)),
    ):
        with RawSession(address) as one:
            if opcode == NUMBERS["auth"]:
                one.ask("auth", body)
            else:
                one.ask_number(opcode, body)
            with contextlib.suppress(EOFError, ConnectionError):
                one.receive()
                raise AssertionError(f"the connection outlives request {opcode}")


def unanswered(address: str) -> None:
    """A server without users of SASL proves nobody, and closes where a proof is cut."""
    with RawSession(address) as one:
        one.ask("sasl", data(b""))
        one.ask("whoAmI")
        one.close()
    for kind in ("sasl", "auth"):
        with RawSession(address) as other:
            other.send(kind, number(100))
            with contextlib.suppress(EOFError, ConnectionError):
                other.receive()
                raise AssertionError(f"the connection outlives a {kind} that was cut")


def pipelines(address: str) -> None:
    """Many requests before the first answer; answers in order, reads seeing the writes before them."""
    with RawSession(address) as one:
        one.do("create", creation("/pipe", b""))
        sent = [one.send("setData", change("/pipe", b"%d" % turn)) for turn in range(100)]
        sent += [one.send("getData", look("/pipe"))]
        for turn in range(100):
            sent.append(one.send("create", creation(f"/pipe/n{turn:03}", b"")))
            sent.append(one.send("exists", look(f"/pipe/n{turn:03}", watch=True)))
            sent.append(one.send("delete", at_version(f"/pipe/n{turn:03}")))
        for xid in sent:
            one.answer(xid)
        one.do("exists", look("/pipe"))
        one.close()


def old_client(address: str) -> None:
    """ClickHouse's client sends a connect request of 44 bytes and must get a reply of 36."""
    with RawSession(address, read_only=None) as one:
        assert len(one.reply) == 36, len(one.reply)
        one.do("create", creation("/old", b""))
        one.close()
    for asked in (100, 60_000):
        with RawSession(address, timeout_ms=asked) as other:
            other.close()


ALL = (
    nodes,
    bad_paths,
    multis,
    watches,
    ended_sessions,
    set_watches,
    rights_of_sessions,
    lists_of_rights,
    odd_requests,
    cut_requests,
    rejected,
    unanswered,
    pipelines,
    old_client,
)
