"""Record batches: raftmeta/wire/record_batches beside tests/kafka/batches, and bytes that are no batch."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faces import records as face
from tests.kafka.batches import HEADER_BYTES, Record, batch, read

OK, CORRUPT, TOO_LARGE, OLD_FORMAT, COMPRESSION, INVALID = 0, 2, 10, 43, 76, 87
WORDS = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(st.binary(max_size=5), WORDS), max_size=3).map(tuple)
RECORDS = st.lists(st.builds(Record, WORDS, WORDS, st.integers(0, 1 << 41), HEADERS), min_size=1, max_size=12)
THREE = [Record(b"a", b"1"), Record(b"b", None, 3_000), Record(b"c", b"3", 2_000)]


@settings(deadline=None)
@given(records=RECORDS, producer=st.sampled_from([-1, 7]))
def test_a_batch_is_read_as_it_was_made(records: list[Record], producer: int) -> None:
    made = batch(records, producer=producer, epoch=min(producer, 0), sequence=min(producer, 0))
    assert face.check(made) == OK
    assert face.check(made, must_have_keys=True) == (OK if all(one.key is not None for one in records) else INVALID)
    first = records[0].timestamp
    assert face.records(made) == [
        (delta, one.timestamp - first, one.key, one.value is not None) for delta, one in enumerate(records)
    ]
    assert face.is_sound(face.placed(made, 1 << 40))


@settings(deadline=None)
@given(records=RECORDS, data=st.data())
def test_records_are_left_out(records: list[Record], data: st.DataObject) -> None:
    placed = face.placed(batch(records, producer=7, epoch=1, sequence=3), 100)
    left_out = data.draw(st.lists(st.integers(100, 99 + len(records)), unique=True).map(sorted))
    kept = [(100 + delta, one) for delta, one in enumerate(records) if 100 + delta not in left_out]
    rest = face.without(placed, left_out)
    if not kept:
        assert rest == b""
        return
    (found,) = read(rest)
    assert found.records == kept
    assert (found.base_offset, found.last_offset) == (100, 99 + len(records))
    assert (found.producer, found.epoch, found.sequence) == (7, 1, 3)
    assert found.max_timestamp == max(one.timestamp for _, one in kept)
    assert face.is_sound(rest)


def test_each_end_of_a_batch_but_its_own_is_refused() -> None:
    made = batch(THREE)
    assert all(face.check(made[:length]) in (CORRUPT, OLD_FORMAT) for length in range(len(made)))
    assert face.check(made + b"\0") == INVALID  # more than one batch
    assert face.check(b"") == CORRUPT


def test_each_flipped_bit_of_a_batch_is_refused() -> None:
    """The place of the batch and the leader epoch are not covered by the checksum."""
    made = batch(THREE)
    for place in [*range(8, 12), *range(16, len(made))]:
        for bit in range(8):
            flipped = bytearray(made)
            flipped[place] ^= 1 << bit
            assert face.check(bytes(flipped)) != OK, (place, bit)


def test_a_batch_of_another_kind_is_refused() -> None:
    cases = [
        (INVALID, batch(THREE, attributes=1 << 4)),  # transactional
        (INVALID, batch(THREE, attributes=1 << 5)),  # control
        (COMPRESSION, batch(THREE, attributes=5)),
        (OLD_FORMAT, batch(THREE, magic=1)),
        (INVALID, batch(THREE, magic=3)),
        (INVALID, batch([])),
        (INVALID, batch(THREE, count=2)),
        (INVALID, batch(THREE, count=4)),
        (INVALID, batch(THREE, last_delta=3)),
        (INVALID, batch(THREE, producer=7, epoch=-1, sequence=0)),
        (INVALID, batch(THREE, producer=7, epoch=0, sequence=-1)),
        (TOO_LARGE, batch([Record(b"k", bytes(1_048_588))])),
    ]
    assert [face.check(made) for _, made in cases] == [code for code, _ in cases]


def test_records_that_lie_about_their_lengths_are_refused() -> None:
    body = batch([Record(b"key", b"value")])[HEADER_BYTES:]
    for place in range(len(body)):
        for value in (0x00, 0x01, 0x02, 0x7E, 0x7F, 0x80, 0xFF):
            changed = body[:place] + bytes([value]) + body[place + 1 :]
            made = batch([Record(b"", b"")], body=changed)
            assert face.check(made) in (OK, INVALID)
            face.records(made)
    for changed in (body[:-1], body + b"\0", b"\xff" * 11, b"", b"\x80" * 40):
        assert face.check(batch([Record(b"", b"")], body=changed)) == INVALID


def test_a_compressed_batch_is_not_looked_into() -> None:
    for codec in (1, 2, 3, 4):
        made = batch(THREE, attributes=codec, body=b"whatever")
        assert face.check(made, must_have_keys=True) == OK
        assert face.is_sound(made)
