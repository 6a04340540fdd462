"""A range in groups against a plain list of keys: whatever the delimiter, the page, the revision and the history."""

from __future__ import annotations

import io
from typing import Any

import msgpack
from hypothesis import given, settings
from hypothesis import strategies as st

from raftmeta.operations import prefix_end
from tests.faces.machine import MachineHandle
from tests.machine import commands as c

# Few letters, so that keys share beginnings; 0xff has no successor, and a delimiter of two bytes may overlap itself.
texts = st.lists(st.sampled_from([b"a", b"b", b"/", b"/", b"\xff"]), max_size=6).map(b"".join)
keys = texts.filter(bool)
changes = st.lists(st.tuples(st.booleans(), st.booleans(), keys), min_size=1, max_size=60)


class Question:
    """A range in groups, and what a list of keys answers to it."""

    def __init__(self, start: bytes, end: bytes, delimiter: bytes, skip: int) -> None:
        self.start, self.end, self.delimiter, self.skip = start, end, delimiter, skip

    def answer(self, live: dict[bytes, list[Any]]) -> list[Any]:
        """Records, and the groups among them."""
        items: list[Any] = []
        for key in sorted(live):
            if key < self.start or (self.end and key >= self.end):
                continue
            at = key.find(self.delimiter, self.skip)
            item: Any = live[key] if at < 0 else key[: at + len(self.delimiter)]
            if not items or items[-1] != item:
                items.append(item)
        return items

    def pages(self, machine: MachineHandle, revision: int, limit: int, bytes_max: int) -> list[Any]:
        """The same from the machine, page by page."""
        items: list[Any] = []
        start, more = self.start, True
        while more:
            status, page, count, more, _ = machine.range_shared(
                start, self.end, revision=revision, limit=limit, bytes_max=bytes_max, **self.grouping
            )
            found = list(msgpack.Unpacker(io.BytesIO(page)))
            assert status == c.OK and count == len(found) and (not limit or count <= limit)
            assert found or not more
            items += found
            if more:
                start = prefix_end(items[-1]) if isinstance(items[-1], bytes) else items[-1][0] + b"\0"
        return items

    @property
    def grouping(self) -> dict[str, Any]:
        return {"delimiter": self.delimiter, "skip": self.skip}


questions = st.builds(
    Question,
    start=texts,
    end=texts,
    delimiter=st.sampled_from([b"/", b"/", b"//", b"a", b"\xff", b"\xff\xff", b"b/", b"none"]),
    skip=st.integers(0, 4),
)


@settings(max_examples=150)
@given(
    changes, st.lists(questions, min_size=1, max_size=6), st.integers(0, 3), st.sampled_from([0, 0, 1]), st.booleans()
)
def test_every_page_of_groups_is_that_of_the_plain_list(
    made: list[tuple[bool, bool, bytes]], asked: list[Question], limit: int, bytes_max: int, is_deep: bool
) -> None:
    """Init: puts and deletes, some histories of them. Act: pages at each revision. Check: groups, records, counts."""
    machine = MachineHandle(fanout=4 if is_deep else 64)
    live: dict[bytes, list[Any]] = {}
    states = [dict(live)]
    for is_put, has_value, key in made:
        if not is_put and key not in live:
            continue
        revision = len(states)
        value = b"v" if has_value else b""
        machine.apply(c.keys(c.put(key, value) if is_put else c.delete(key)))
        if is_put:
            before = live.get(key)
            created, version = (before[2], before[4] + 1) if before else (revision, 1)
            live[key] = [key, value, created, revision, version, 0, 0]
        else:
            del live[key]
        states.append(dict(live))
    machine.publish()
    for question in asked:
        for revision in {0, len(states) // 2, len(states) - 1}:
            expected = question.answer(states[revision or -1])
            assert question.pages(machine, revision, limit, bytes_max or 0xFFFFFFFF) == expected
            counted = machine.range_shared(
                question.start, question.end, revision=revision, count_only=True, **question.grouping
            )
            assert counted[:4] == (c.OK, b"", len(expected), False)


def test_keys_in_a_group_are_passed_and_not_read() -> None:
    """Values of a group are never copied, and those of the records beside it only if they are asked for."""
    machine = MachineHandle()
    machine.apply(c.keys(c.put(b"a/b/1", bytes(900)), c.put(b"a/b/2", bytes(900)), c.put(b"a/c", b"value")))
    machine.publish()
    groups = {"delimiter": b"/", "skip": 2}
    page = machine.range_shared(b"a/", b"a0", **groups)  # type: ignore[arg-type]
    assert page[1] == c.pack(b"a/b/") + c.pack([b"a/c", b"value", 1, 1, 1, 0, 0])
    page = machine.range_shared(b"a/", b"a0", keys_only=True, **groups)  # type: ignore[arg-type]
    assert page[1] == c.pack(b"a/b/") + c.pack([b"a/c", b"", 1, 1, 1, 0, 0])
