"""The table of watches against a dumb model: any order of requests, events and lost connections."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.faces.zookeeper_watches import Table

DATA, CHILDREN, ALWAYS, BELOW = 1, 2, 4, 8
ANY = DATA | CHILDREN | ALWAYS | BELOW
ONE_SHOT = DATA | CHILDREN
OK, OVERLOADED = 0, 34
COUNT_MAX = 12

places = st.integers(0, 3)
paths = st.sampled_from([b"/", b"/a", b"/a/b", b"/a/b/c", b"/ab", b"/b"])
modes = st.sampled_from([DATA, CHILDREN, ALWAYS, BELOW])
masks = st.integers(0, ANY)


def above(path: bytes) -> list[bytes]:
    """The nodes above a path, the nearest first."""
    found = []
    while path != b"/":
        path = path.rpartition(b"/")[0] or b"/"
        found.append(path)
    return found


class Model:
    """(place, path) -> modes."""

    def __init__(self) -> None:
        self.watches: dict[tuple[int, bytes], int] = {}

    def add(self, place: int, path: bytes, mode: int) -> int:
        has = self.watches.get((place, path), 0)
        if not has & mode and sum(modes.bit_count() for modes in self.watches.values()) >= COUNT_MAX:
            return OVERLOADED
        self.watches[place, path] = has | mode
        return OK

    def take(self, place: int, path: bytes, mask: int) -> None:
        left = self.watches.get((place, path), 0) & ~mask
        self.watches.pop((place, path), None)
        if left:
            self.watches[place, path] = left

    def hit(self, path: bytes, mask: int) -> set[int]:
        found = {place for (place, at), has in self.watches.items() if at == path and has & mask}
        if mask & BELOW:
            found |= {place for (place, at), has in self.watches.items() if at in above(path) and has & BELOW}
        return found

    def counts(self) -> tuple[int, int, int, int]:
        return (
            sum(has.bit_count() for has in self.watches.values()),
            len({path for _, path in self.watches}),
            sum(1 for has in self.watches.values() if has & BELOW),
            len(self.watches),
        )


steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), places, paths, modes),
        st.tuples(st.just("remove"), places, paths, masks),
        st.tuples(st.just("fire"), paths, masks, masks),
        st.tuples(st.just("drop"), places),
    ),
    max_size=60,
)


@given(steps)
def test_the_table_is_the_model(history: list[tuple[object, ...]]) -> None:
    """ZooKeeper 3.9 WatchManager: one-shot modes go with the event that hits their path, and lasting ones stay."""
    table, model = Table(COUNT_MAX), Model()
    for verb, *arguments in history:
        match verb, arguments:
            case "add", [int(place), bytes(path), int(mode)]:
                assert table.add(place, path, mode) == model.add(place, path, mode)
            case "remove", [int(place), bytes(path), int(mask)]:
                table.remove(place, path, mask)
                model.take(place, path, mask)
            case "fire", [bytes(path), int(mask), int(spent)]:
                assert table.is_watched(path, mask) == bool(model.hit(path, mask))
                assert set(table.fire(path, mask, spent)) == model.hit(path, mask)
                for place in range(4):
                    model.take(place, path, spent & ONE_SHOT)
            case "drop", [int(place)]:
                table.drop(place)
                for at, path in list(model.watches):
                    if at == place:
                        model.take(place, path, ANY)
        assert table.counts() == model.counts()
    for place in range(4):
        for path in (b"/", b"/a", b"/a/b"):
            assert table.modes(place, path) == model.watches.get((place, path), 0)


def test_a_full_table_refuses_one_more_and_takes_it_when_another_went() -> None:
    """Watches are bounded, and a watch that is there already needs no room."""
    table = Table(2)
    assert table.add(0, b"/a", DATA) == OK
    assert table.add(0, b"/b", DATA) == OK
    assert table.add(0, b"/a", DATA) == OK
    assert table.add(1, b"/a", CHILDREN) == OVERLOADED
    assert table.fire(b"/a", DATA, DATA) == [0]
    assert table.add(1, b"/a", CHILDREN) == OK


def test_many_watchers_of_one_path_leave_it_one_by_one() -> None:
    """Neither an event nor a lost connection leaves a path behind that nobody watches."""
    table = Table(1000)
    for place in range(16):
        for number in range(20):
            assert table.add(place, b"/p%d" % number, DATA) == OK
    assert sorted(table.fire(b"/p0", DATA, DATA)) == list(range(16))
    for place in range(16):
        table.drop(place)
    assert table.counts() == (0, 0, 0, 0)
