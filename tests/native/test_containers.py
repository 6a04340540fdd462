"""Containers of the native threads against Python's own, step by step; growth that cannot be and shared chunks."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.faces.native import ChunkHandle, Map64Handle, RingHandle, VecHandle

NUMBERS = st.integers(0, 2**64 - 1)
POSITIONS = st.integers(0, 100)
# Keys whose home slots collide: near each other, far apart, equal in their low or high half.
KEYS = st.integers(0, 40) | st.integers(0, 40).map(lambda n: n << 32) | NUMBERS


class VecSteps(RuleBasedStateMachine):
    """Vec against list."""

    def __init__(self) -> None:
        super().__init__()
        self.vec = VecHandle()
        self.model: list[int] = []

    @rule(value=NUMBERS)
    def push(self, value: int) -> None:
        assert self.vec.push(value)
        self.model.append(value)

    @precondition(lambda self: self.model)
    @rule(position=POSITIONS)
    def push_an_element_of_its_own(self, position: int) -> None:
        position %= len(self.model)
        assert self.vec.push_own(position)
        self.model.append(self.model[position])

    @rule(values=st.lists(NUMBERS, max_size=40))
    def append(self, values: list[int]) -> None:
        other = VecHandle()
        assert all(other.push(value) for value in values)
        assert self.vec.append(other)
        self.model.extend(values)

    @rule(count=POSITIONS)
    def resize(self, count: int) -> None:
        assert self.vec.resize(count)
        self.model = self.model[:count] + [0] * (count - len(self.model))

    @rule(count=POSITIONS)
    def drop_front(self, count: int) -> None:
        self.vec.drop_front(count)
        del self.model[:count]

    @precondition(lambda self: self.model)
    @rule()
    def pop(self) -> None:
        assert self.vec.pop() == self.model.pop()

    @rule(wanted=POSITIONS)
    def reserve(self, wanted: int) -> None:
        assert self.vec.reserve(wanted)

    @rule()
    def clear(self) -> None:
        self.vec.clear()
        self.model.clear()

    @invariant()
    def equal(self) -> None:
        assert self.vec.items() == self.model


class RingSteps(RuleBasedStateMachine):
    """Ring against deque."""

    def __init__(self) -> None:
        super().__init__()
        self.ring = RingHandle()
        self.model: deque[int] = deque()

    @rule(values=st.lists(NUMBERS, min_size=1, max_size=12))
    def push(self, values: list[int]) -> None:
        assert all(self.ring.push(value) for value in values)
        self.model.extend(values)

    @precondition(lambda self: self.model)
    @rule(position=POSITIONS)
    def push_an_element_of_its_own(self, position: int) -> None:
        position %= len(self.model)
        assert self.ring.push_own(position)
        self.model.append(self.model[position])

    @precondition(lambda self: self.model)
    @rule()
    def pop_front(self) -> None:
        assert self.ring.pop_front() == self.model.popleft()

    @precondition(lambda self: self.model)
    @rule()
    def pop_back(self) -> None:
        assert self.ring.pop_back() == self.model.pop()

    @rule(count=POSITIONS)
    def drop_front(self, count: int) -> None:
        count = min(count, len(self.model))
        self.ring.drop_front(count)
        for _ in range(count):
            self.model.popleft()

    @rule()
    def clear(self) -> None:
        self.ring.clear()
        self.model.clear()

    @invariant()
    def equal(self) -> None:
        assert self.ring.items() == list(self.model)


class Map64Steps(RuleBasedStateMachine):
    """Map64 against dict."""

    def __init__(self) -> None:
        super().__init__()
        self.map = Map64Handle()
        self.model: dict[int, int] = {}

    @rule(key=KEYS, value=NUMBERS)
    def insert(self, key: int, value: int) -> None:
        assert self.map.insert(key, value) == self.model.get(key, 0)
        self.model[key] = value

    @rule(first=KEYS, count=st.integers(1, 60))
    def insert_many(self, first: int, count: int) -> None:
        for key in range(first, min(first + count, 2**64)):
            self.map.insert(key, key)
            self.model[key] = key

    @rule(key=KEYS)
    def erase(self, key: int) -> None:
        assert self.map.erase(key) == (self.model.pop(key, None) is not None)

    @precondition(lambda self: self.model)
    @rule(position=POSITIONS)
    def erase_one_that_is_there(self, position: int) -> None:
        key = sorted(self.model)[position % len(self.model)]
        assert self.map.erase(key)
        del self.model[key]

    @rule(key=KEYS)
    def find(self, key: int) -> None:
        assert self.map.find(key) == self.model.get(key)

    @rule()
    def clear(self) -> None:
        self.map.clear()
        self.model.clear()

    @invariant()
    def equal(self) -> None:
        assert len(self.map) == len(self.model)
        assert sorted(self.map.items()) == sorted(self.model.items())
        assert all(self.map.find(key) == value for key, value in self.model.items())


for steps in (VecSteps, RingSteps, Map64Steps):
    steps.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestVecSteps = VecSteps.TestCase
TestRingSteps = RingSteps.TestCase
TestMap64Steps = Map64Steps.TestCase


@pytest.mark.parametrize("wanted", [2**64 - 1, 2**63, 2**61, 2**60 + 1, 2**59])
def test_growth_that_cannot_be_leaves_a_vec_as_it_was(wanted: int) -> None:
    """init: three elements; act: ask for more than any address space; check: False, and the three are there."""
    vec = VecHandle()
    assert all(vec.push(value) for value in (1, 2, 3))
    assert not vec.reserve(wanted)
    assert not vec.resize(wanted)
    assert vec.items() == [1, 2, 3]
    assert vec.push(4)
    assert vec.items() == [1, 2, 3, 4]


@given(st.integers(1, 5))
def test_a_chunk_lives_as_long_as_its_last_holder(more: int) -> None:
    """init: one holder; act: more come and all but one go; check: the bytes stand, and end with the last."""
    chunk = ChunkHandle(8)
    chunk.append(b"abc")
    for _ in range(more):
        chunk.hold()
    assert chunk.holders == more + 1
    for _ in range(more):
        chunk.drop()
    chunk.append(b"defgh")
    assert chunk.content() == b"abcdefgh"
    chunk.drop()
    assert chunk.holders == 0


def test_a_chunk_has_no_more_than_its_room() -> None:
    """What does not fit is refused whole."""
    chunk = ChunkHandle(4)
    chunk.append(b"1234")
    with pytest.raises(ValueError, match="no room"):
        chunk.append(b"5")
    assert chunk.content() == b"1234"
