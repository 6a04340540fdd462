"""The state tree against a dictionary of versions: any sequence of its verbs."""

from __future__ import annotations

from typing import Any, TypeAlias

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from tests.faces.tree import PinnedRoot, TreeHandle

# (key, value, create_revision, mod_revision, version, lease, flags)
Record: TypeAlias = tuple[bytes, bytes, int, int, int, int, int]

TOMBSTONE = 1
PREFIXES = [b"", b"a", b"common/beginning/of/keys/", b"common/beginning/of/keyz", b"\0" * 9, b"\xff" * 9, b"x" * 460]
keys = st.builds(
    lambda prefix, tail: prefix + tail or b"\0",
    st.sampled_from(PREFIXES),
    st.one_of(st.integers(0, 120).map(lambda n: b"%d" % n), st.binary(max_size=20)),
)
values = st.one_of(st.just(b""), st.binary(max_size=40), st.integers(2000, 3000).map(lambda n: b"v" * n))


class TreeAgainstVersions(RuleBasedStateMachine):
    """The model: for each key its versions, newest first, as records."""

    pins = Bundle("pins")

    @initialize(fanout=st.sampled_from([4, 5, 8, 64]), loaded=st.dictionaries(keys, values, max_size=60))
    def start(self, fanout: int, loaded: dict[bytes, bytes]) -> None:
        self.tree = TreeHandle(fanout=fanout)
        rows: list[Record] = [(key, loaded[key], 1, 1, 1, 0, 0) for key in sorted(loaded)]
        self.tree.load(rows, 1)
        self.model: dict[bytes, list[Record]] = {row[0]: [row] for row in rows}
        self.revision = 1
        self.published = self.copy()
        self.published_revision = 1
        self.pins_taken = 0
        self.held: dict[int, tuple[PinnedRoot, dict[bytes, list[Record]]]] = {}

    def copy(self) -> dict[bytes, list[Record]]:
        return {key: list(versions) for key, versions in self.model.items()}

    @rule(key=keys, value=values, lease=st.integers(0, 3))
    def put(self, key: bytes, value: bytes, lease: int) -> None:
        self.revision += 1
        older = self.model.get(key)
        born = older is None or bool(older[0][6] & TOMBSTONE)
        create, version = (self.revision, 1) if born or older is None else (older[0][2], older[0][4] + 1)
        self.tree.put(key, value, revision=self.revision, lease=lease)
        self.model[key] = [(key, value, create, self.revision, version, lease, 0), *(older or [])]

    @rule(first=st.integers(0, 200), count=st.integers(1, 40))
    def put_many(self, first: int, count: int) -> None:
        for number in range(first, first + count):
            self.put(b"%d" % number, b"many", 0)

    @rule(data=st.data())
    def delete(self, data: Any) -> None:
        live = sorted(key for key, versions in self.model.items() if not versions[0][6] & TOMBSTONE)
        if live:
            self.delete_key(data.draw(st.sampled_from(live)))

    @rule(share=st.integers(2, 5))
    def delete_many(self, share: int) -> None:
        for key in sorted(self.model)[::share]:
            if not self.model[key][0][6] & TOMBSTONE:
                self.delete_key(key)

    def delete_key(self, key: bytes) -> None:
        self.revision += 1
        older = self.model[key]
        self.tree.delete(key, revision=self.revision)
        self.model[key] = [(key, b"", older[0][2], self.revision, 0, 0, TOMBSTONE), *older]

    @rule()
    def publish(self) -> None:
        self.tree.publish(self.revision)
        self.published = self.copy()
        self.published_revision = self.revision

    # Readers of older roots walk the same chains: what is cut for one is cut for all (history below the floor).
    @rule(floor_share=st.floats(0, 1))
    def cut_and_remove(self, floor_share: float) -> None:
        floor = int(self.published_revision * floor_share)
        for key in sorted(self.model):
            kept = [r for r in self.model[key] if r[3] > floor]
            boundary = self.model[key][len(kept) : len(kept) + 1]
            if not kept and boundary[0][6] & TOMBSTONE:
                self.tree.remove(key)
                del self.model[key]
            else:
                self.tree.cut(key, floor)
                self.model[key] = kept + boundary

    @rule(target=pins)
    def pin(self) -> int:
        self.pins_taken += 1
        self.held[self.pins_taken] = (self.tree.pin(), self.published)
        return self.pins_taken

    @rule(number=consumes(pins))
    def release(self, number: int) -> None:
        self.held.pop(number)[0].release()

    @rule(objects_max=st.sampled_from([1, 5, 50, 1 << 30]))
    def reclaim(self, objects_max: int) -> None:
        self.tree.reclaim(objects_max)

    @rule(number=pins, start=keys, limit=st.integers(0, 30))
    def range_of_a_pinned_root(self, number: int, start: bytes, limit: int) -> None:
        root, state = self.held[number]
        wanted = [state[key][0] for key in sorted(state) if key >= start][:limit]
        assert root.range(start, limit) == wanted

    @rule(left=pins, right=pins, start=st.one_of(st.just(b""), keys))
    def difference_of_pinned_roots(self, left: int, right: int, start: bytes) -> None:
        (older, old_state), (newer, new_state) = self.held[left], self.held[right]
        wanted = []
        for key in sorted(k for k in old_state.keys() | new_state.keys() if k >= start):
            pair = (old_state.get(key, [None])[0], new_state.get(key, [None])[0])
            if pair[0] != pair[1]:
                wanted.append(pair)
        assert older.difference(newer, start) == (wanted, False)

    @rule(key=keys, revision=st.integers(0, 400))
    def read_at_a_revision(self, key: bytes, revision: int) -> None:
        root = self.tree.pin()
        versions = self.published.get(key, [])
        kept = {record[3] for record in self.model.get(key, [])}
        wanted = next((r for r in versions if r[3] <= revision), None)
        if wanted is not None and wanted[3] in kept:
            assert root.get_at(key, revision) == wanted
        root.release()

    @invariant()
    def writer_sees_the_model(self) -> None:
        live = sum(1 for versions in self.model.values() if not versions[0][6] & TOMBSTONE)
        assert self.tree.count == live
        for key in list(self.model)[:5]:
            assert self.tree.find(key) == self.model[key][0]

    @invariant()
    def pinned_roots_stay_as_they_were(self) -> None:
        for root, state in self.held.values():
            root.verify()
            assert root.range() == [state[key][0] for key in sorted(state)]

    def teardown(self) -> None:
        if not hasattr(self, "tree"):
            return
        self.publish()
        with self.tree.pin() as root:
            root.verify()
            for key, versions in self.model.items():
                assert root.versions(key) == versions
            assert self.tree.hash == root.hash
        for root, _ in self.held.values():
            root.release()
        for key in sorted(self.model):
            if not self.model[key][0][6] & TOMBSTONE:
                self.delete_key(key)
        self.publish()
        for key in sorted(self.model):
            self.tree.remove(key)
        self.tree.publish(self.revision)
        self.tree.reclaim()
        assert self.tree.count == 0 and self.tree.hash == 0
        assert self.tree.used_bytes < 8192, "a root, an empty leaf and a spare list block"


TestTreeAgainstVersions = TreeAgainstVersions.TestCase
TestTreeAgainstVersions.settings = settings(stateful_step_count=50)
