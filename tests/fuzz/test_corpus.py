"""Every input that a fuzzer began with or found, executed again: no belief proves wrong, cut or whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faces.fuzz import TARGETS, address, run
from tests.faces.wire import CommandDecoder, frame_decode, genesis_message_decode, hello_decode, refused_decode
from tests.fuzz.certificates import prepare
from tests.fuzz.modules import needed, source_of
from tests.fuzz.planted import PLANTED
from tests.lint.sources import ROOT, module_name, source_files
from tests.wire.guarded import guarded
from tests.wire.names import Status

CORPUS = Path(__file__).parent / "corpus"
FILE_BYTES_MAX = 1024


@pytest.fixture(scope="module", autouse=True)
def certificates() -> None:
    prepare()


def inputs(target: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((CORPUS / target).iterdir())]


def test_each_target_has_a_corpus_and_each_corpus_a_target() -> None:
    """Small files: together they take less than a second."""
    assert {path.name for path in CORPUS.iterdir()} == set(TARGETS)
    for target in TARGETS:
        sizes = [len(data) for data in inputs(target)]
        assert sizes and min(sizes) > 0 and max(sizes) <= FILE_BYTES_MAX, target


@pytest.mark.parametrize("target", TARGETS)
def test_no_belief_proves_wrong(target: str) -> None:
    """The input, each cut of it, and each with one byte turned over, ending at an unreadable page."""
    for data in inputs(target):
        assert run(target, guarded(data)) == 0, data.hex()
        for length in range(0, len(data), 1 + len(data) // 64):
            assert run(target, guarded(data[:length])) == 0, data[:length].hex()
        for at in range(0, len(data), 1 + len(data) // 64):
            turned = data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]
            assert run(target, guarded(turned)) == 0, turned.hex()


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_takes_what_was_made_for_another(target: str) -> None:
    for other in TARGETS:
        for data in inputs(other):
            assert run(target, guarded(data)) == 0, f"{other}: {data.hex()}"


def test_what_nodes_said_is_understood() -> None:
    """The corpora were recorded from real nodes: else a fuzzer would begin with nothing."""
    decoders = {
        "peer_hello": lambda data: hello_decode(data)[0],
        "peer_refused": lambda data: refused_decode(data)[0],
        "peer_genesis": lambda data: genesis_message_decode(data)[0],
        "peer_stream": lambda data: frame_decode(data)[0],
        "command": lambda data: CommandDecoder().decode(data)[0],
    }
    for target, decode in decoders.items():
        understood = [data for data in inputs(target) if decode(data) == Status.OK]
        assert 2 * len(understood) >= len(inputs(target)) > 1, target


def test_every_decoder_is_among_the_modules() -> None:
    """The fuzzers are built of each module of wire/, and of no module twice."""
    modules = needed()
    assert len(modules) == len(set(modules))
    assert {module_name(path) for path in source_files(".pyx", below=ROOT / "raftmeta" / "wire")} <= set(modules)
    assert all(source_of(module).exists() for module in modules)


def test_a_target_that_is_none_is_told() -> None:
    with pytest.raises(ValueError, match="no_such"):
        run("no_such", b"")
    assert len({address(target) for target in TARGETS}) == len(TARGETS)


def test_the_planted_bugs_still_fit() -> None:
    """./build.sh fuzz --planted replaces these texts."""
    for bug in PLANTED:
        assert bug.target in TARGETS
        assert (ROOT / bug.file).read_text().count(bug.sound) == 1, bug.sound
