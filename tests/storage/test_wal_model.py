"""Random lives of a log against a dictionary: Hypothesis draws operations, faults and moments of death."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from raftmeta.security.cipher_handle import KeyRingHandle
from tests.faces.disk import SimulatedDisk
from tests.storage.conftest import OTHER_KEY, encrypted_runs, keys_of_test
from tests.storage.driver import LogDriver
from tests.storage.names import Status

SIZES = st.lists(st.integers(0, 1500), min_size=1, max_size=8)


class LogLife(RuleBasedStateMachine):
    """One log, from its first segment on; every rule may be the one during which the power fails."""

    log: LogDriver

    def keys(self) -> KeyRingHandle | None:
        """Of the log's files; None: they are plain."""
        return None

    @initialize(
        seed=st.integers(0, 2**32),
        sector_bytes=st.sampled_from([512, 4096]),
        segment_bytes=st.sampled_from([4096, 8192, 40_000]),
        reserve_bytes=st.sampled_from([0, 4096]),
    )
    def begin(self, seed: int, sector_bytes: int, segment_bytes: int, reserve_bytes: int) -> None:
        limits = {"segment_bytes": segment_bytes, "reserve_bytes": reserve_bytes, "alignment_bytes": sector_bytes}
        disk = SimulatedDisk(seed=seed, sector_bytes=sector_bytes)
        disk.use_keys(self.keys())
        self.log = LogDriver(disk, limits)
        assert self.log.open() is not None and self.log.begin()

    def after(self, is_alive: bool) -> None:
        """The power failed: start again, as often as it takes."""
        while not is_alive:
            self.log.disk.plan()
            is_alive = self.log.crash()

    @rule(moment=st.integers(1, 6), fault=st.sampled_from(["cut_at_sync", "cut_at_write"]), late=st.booleans())
    def power_will_fail(self, moment: int, fault: str, late: bool) -> None:
        self.log.disk.plan(**{fault: moment}, cut_after_sync=late)

    @rule(sizes=SIZES, back=st.integers(0, 4))
    def append(self, sizes: list[int], back: int) -> None:
        self.after(self.log.append(sizes, back=back))

    @rule(term=st.integers(0, 2), vote=st.integers(0, 3))
    def vote(self, term: int, vote: int) -> None:
        state = self.log.model.hard_state
        self.after(self.log.append([], hard_state=(state[0] + term, vote, self.log.model.compacted)))

    @rule(index=st.integers(0, 60))
    def compact(self, index: int) -> None:
        self.after(self.log.compact(index))

    @rule(size_bytes=st.integers(1, 9000))
    def prepare(self, size_bytes: int) -> None:
        self.after(self.log.prepare(size_bytes))

    @rule()
    def idle(self) -> None:
        self.after(self.log.idle())

    @rule()
    def kill(self) -> None:
        self.after(self.log.kill())

    @rule()
    def crash(self) -> None:
        self.log.disk.plan()
        self.after(self.log.crash())

    @precondition(lambda self: self.log.model.last > 0)
    @rule(ahead=st.integers(0, 50))
    def install(self, ahead: int) -> None:
        index = self.log.model.last + ahead
        term = self.log.model.hard_state[0]
        self.after(self.log.begin((index, term, index * 7), (term, 0, index)))

    @precondition(lambda self: self.log.model.last > self.log.model.compacted and not self.log.disk.is_cut)
    @rule(position=st.floats(0, 1), bytes_max=st.integers(0, 5000))
    def read(self, position: float, bytes_max: int) -> None:
        model = self.log.model
        index = model.compacted + 1 + int(position * (model.last - model.compacted - 1))
        status, records = self.log.wal.read(index, bytes_max)
        assert status == Status.OK
        begin = index - model.start[0] - 1
        assert tuple(records) == model.records[begin : begin + len(records)] and records

    @invariant()
    def room_is_told(self) -> None:
        assert self.log.wal.free_bytes() > 0

    def teardown(self) -> None:
        self.log.disk.plan()
        self.after(self.log.crash())
        self.log.wal.close()


class EncryptedLogLife(LogLife):
    """The same, encrypted; now and then another key becomes the current one, or none. No nonce ever comes twice."""

    nonces: dict[tuple[bytes, bytes], bytes]

    def keys(self) -> KeyRingHandle | None:
        ring = keys_of_test()
        ring.add(OTHER_KEY)
        self.nonces = {}
        return ring

    @rule(place=st.integers(0, 2))
    def rotate(self, place: int) -> None:
        ring = self.log.disk.key_ring
        assert ring is not None
        ring.use((0, *ring.ids)[place])

    @invariant()
    def each_nonce_is_used_once(self) -> None:
        for name in self.log.disk.list_names():
            if name.endswith(".log"):
                for uuid, nonce, tag in encrypted_runs(self.log.disk, name):
                    assert self.nonces.setdefault((uuid, nonce), tag) == tag


TestEncryptedLogLife = EncryptedLogLife.TestCase
TestEncryptedLogLife.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)

TestLogLife = LogLife.TestCase
TestLogLife.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
