"""Known bugs for the fuzzers to find: python -m tests.fuzz.planted plants all of them in the sources around it.

Only a copy of the sources is touched: ./build.sh fuzz --planted makes one. Each bug is one that decoders have: a length
that nobody checks, a field that is written wrong.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from tests.lint.sources import ROOT


@dataclass(frozen=True)
class Planted:
    """target: whose fuzzer must find it. sound, wrong: text of the file before and after."""

    target: str
    file: str
    sound: str
    wrong: str


PLANTED = (
    Planted(  # a text of any length is copied out of the body
        "peer_hello",
        "raftmeta/wire/msgpack.pxd",
        "    if wanted > read_left(reader):\n        read_fail(reader, BAD_LENGTH)\n        return NULL\n"
        "    if reader.status != OK:\n        return NULL\n",
        "    if reader.status != OK:\n        return NULL\n",
    ),
    Planted(  # the checksum is asked for over all that the record claims
        "peer_message",
        "raftmeta/raft/record.pxd",
        "    if record.length > RECORD_BYTES_MAX or record_bytes(record.length) > length:\n",
        "    if record.length > RECORD_BYTES_MAX:\n",
    ),
    Planted(  # a frame counts as whole before it is
        "client_stream",
        "raftmeta/wire/client_messages.pyx",
        "    if length < total[0]:\n        return INCOMPLETE\n    return OK if load32",
        "    return OK if load32",
    ),
    Planted(  # a text may be longer than what is left of its frame
        "zookeeper_stream",
        "raftmeta/doors/zookeeper/codec.pyx",
        "    if length < 0 or length > jute.end - jute.at:\n",
        "    if length < 0:\n",
    ),
    Planted(  # a text may be longer than what is left of its frame
        "kafka_stream",
        "raftmeta/doors/kafka/codec.pxd",
        "    if length < -1 or length > reader.end - reader.at:\n",
        "    if length < -1:\n",
    ),
    Planted(  # no crash: one half of a hash is written twice
        "peer_state",
        "raftmeta/wire/state_messages.pyx",
        "    write_uint(&writer, mark.hash.high)\n",
        "    write_uint(&writer, mark.hash.low)\n",
    ),
    Planted(  # no crash: the second part of a record begins where the first one ended
        "tls_peer_stream",
        "raftmeta/security/tls.pyx",
        "                count -= 1\n                offset = 0\n    return taken\n",
        "                count -= 1\n    return taken\n",
    ),
)


def plant(root: Path) -> None:
    for bug in PLANTED:
        path = root / bug.file
        text = path.read_text()
        assert text.count(bug.sound) == 1, f"{bug.file}: {bug.sound!r}"
        path.write_text(text.replace(bug.sound, bug.wrong))


if __name__ == "__main__":
    if (ROOT / ".git").exists():
        sys.exit("this folder is the checkout itself: plant in a copy")
    plant(ROOT)
