"""The corpus: each input keeps its status for ever, and every decoder survives all of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faces.wire import (
    CommandDecoder,
    frame_decode,
    genesis_message_decode,
    hello_decode,
    message_decode,
    refused_decode,
    unpack,
)
from tests.wire.guarded import guarded
from tests.wire.names import Status

DECODERS: dict[str, Callable[[memoryview], int]] = {
    "frame": lambda data: frame_decode(data)[0],
    "hello": lambda data: hello_decode(data)[0],
    "refused": lambda data: refused_decode(data)[0],
    "message": lambda data: message_decode(data)[0],
    "genesis": lambda data: genesis_message_decode(data)[0],
    "command": lambda data: CommandDecoder().decode(data)[0],
    "msgpack": lambda data: unpack(data)[0],
}


def parsed(line: str) -> tuple[str, bytes, str]:
    decoder, text, status = line.split("#")[0].split()
    parts = [part.partition("*") for part in text.split("+") if part != "-"]
    return decoder, b"".join(bytes.fromhex(hexed) * int(count or 1) for hexed, _, count in parts), status


CORPUS = [
    parsed(line)
    for line in (Path(__file__).parent / "corpus.txt").read_text().splitlines()
    if line and not line.startswith("#")
]


@pytest.mark.parametrize(("decoder", "data", "status"), CORPUS, ids=lambda value: str(value)[:24])
def test_an_input_of_the_corpus_has_its_status(decoder: str, data: bytes, status: str) -> None:
    """One line of corpus.txt each, ending at an unreadable page."""
    assert DECODERS[decoder](guarded(data)) == Status[status]


@pytest.mark.parametrize("decoder", DECODERS)
def test_every_decoder_survives_the_whole_corpus(decoder: str) -> None:
    """What was made for one is a strange input for the others: whole, cut and as records."""
    for _, data, _ in CORPUS:
        for length in {len(data), len(data) // 2, max(len(data) - 1, 0)}:
            assert DECODERS[decoder](guarded(data[:length])) in set(Status)
    assert all(message_decode(b"\x94\x09\x00\x00\x01", guarded(data))[0] in set(Status) for _, data, _ in CORPUS)
