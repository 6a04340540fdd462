"""A record log beside a plain model of docs/kafka-records.md, at random."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.faces import records as face
from tests.kafka import record_logs as r
from tests.kafka.batches import Record, batch
from tests.kafka.record_model import Asked, Model
from tests.machine.machines import loaded

RECORDS = st.lists(
    st.builds(
        Record,
        st.sampled_from([b"a", b"b", b"c", b"d"]),
        st.sampled_from([b"", b"v", None]),
        st.integers(0, 5_000),
        st.just(()),
    ),
    min_size=1,
    max_size=6,
)


class RecordLog(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.machine = r.new_machine()
        self.model = Model()
        self.given: dict[int, list[Record]] = {}  # offset of an accepted batch: its records

    def appends(self, asked: Asked) -> None:
        made = batch(
            asked.records,
            producer=asked.producer,
            epoch=asked.epoch,
            sequence=asked.sequence,
            attributes=1 if asked.is_compressed else 0,
            body=b"opaque" if asked.is_compressed else None,
        )
        before = self.machine.state_hash(), self.model.next
        code, number, start = r.answered(
            self.machine,
            r.append(made, policy=asked.policy, retention_ms=asked.retention_ms, records_max=asked.records_max),
        )
        expected = self.model.append(asked, self.machine.lease_ms)
        assert (code, number) == expected
        assert start == self.model.start
        if self.model.next == before[1]:  # refused, or a duplicate
            assert self.machine.state_hash() == before[0]
        else:
            assert number not in self.given
            self.given[number] = asked.records

    @rule(
        records=RECORDS,
        policy=st.sampled_from([r.COMPACT, r.COMPACT, r.COMPACT | r.DELETE, r.DELETE, 0]),
        retention_ms=st.sampled_from([0, 0, 4_000]),
        records_max=st.sampled_from([0, 0, 0, 5]),
        is_compressed=st.sampled_from([False] * 7 + [True]),
    )
    def append(self, **asked: Any) -> None:
        self.appends(Asked(**asked))

    @rule(
        records=RECORDS,
        producer=st.sampled_from([1, 2]),
        step=st.sampled_from([0, 0, 0, 0, -1, 1, -3]),
        age=st.sampled_from([None, None, None, 0, 1, 4, 5]),
        bump=st.sampled_from([0, 0, 0, 0, 1, -1]),
    )
    def append_of_producer(self, records: list[Record], producer: int, step: int, age: int | None, bump: int) -> None:
        """The next batch, one with another sequence or epoch, or one of the last ones again."""
        known = self.model.producers.get(producer)
        epoch = max((known.epoch if known else 0) + bump, 0)
        sequence = (known.batches[-1][2] + 1) % (1 << 31) if known and not bump else 0
        if known is None:
            sequence = (1 << 31) - 4  # it soon wraps around
        elif age is not None and age < len(known.batches):
            _, sequence, last = known.batches[-1 - age]
            records = [Record(b"a", b"again")] * ((last - sequence) % (1 << 31) + 1)
        self.appends(Asked(records, r.COMPACT, producer=producer, epoch=epoch, sequence=(sequence + step) % (1 << 31)))

    @rule(data=st.data())
    def trim(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(max(self.model.start - 2, 0), self.model.next + 1))
        assert r.answered(self.machine, r.trim(offset))[:2] == list(self.model.trim(offset))

    @rule(passed_ms=st.sampled_from([1_000, 3_000, r.TOMBSTONE_MS]))
    def time_passes(self, passed_ms: int) -> None:
        self.machine.lease_ms += passed_ms

    # --- what must hold -------------------------------------------------------------------------------------------
    @invariant()
    def the_machine_is_as_the_model_says(self) -> None:
        found = r.shown(self.machine)
        model = self.model
        if found is None:
            assert model.next == 0
            return
        assert (found.start, found.next) == (model.start, model.next)
        assert [(one.base_offset, one.last_offset) for one in found.batches] == [
            (one.base, one.last) for one in model.batches
        ]
        assert [one.records for one, opened in zip(found.batches, found.keyed, strict=True) if opened] == [
            one.records for one in model.batches if one.is_open
        ]
        assert {id: epoch for id, (epoch, _) in found.producers.items()} == {
            id: known.epoch for id, known in model.producers.items()
        }

    @invariant()
    def an_open_batch_has_the_last_record_of_each_key(self) -> None:
        """And the index names exactly these records."""
        found = r.shown(self.machine)
        if found is None:
            return
        opened = [
            one for batch, is_open in zip(found.batches, found.keyed, strict=True) if is_open for one in batch.records
        ]
        assert found.keys == {r.hash_of(one.key or b""): (offset, one.value is None) for offset, one in opened}
        assert found.tombstones == {offset: r.hash_of(one.key or b"") for offset, one in opened if one.value is None}

    @invariant()
    def what_was_accepted_is_as_it_was(self) -> None:
        for one in r.fetched(self.machine):
            given = self.given[one.base_offset]
            assert one.last_offset == one.base_offset + len(given) - 1
            for offset, record in one.records:
                assert record == given[offset - one.base_offset]

    @rule()
    def dump(self) -> None:
        copied = loaded(self.machine.handle.dump())
        assert copied.status().state_hash == self.machine.state_hash()
        assert face.log_view(copied, r.LOG) == face.log_view(self.machine.handle, r.LOG)


TestRecordLog = RecordLog.TestCase
TestRecordLog.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
