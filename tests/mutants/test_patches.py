"""The planted bugs stay plantable; `./build.sh mutants` plants and hunts them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from raftmeta.sim import small_world
from tests.mutants.hunt import PROFILES, SMALL_STATES_MAX, SMALL_WORLDS
from tests.mutants.planted import ROOT, Planted, PlantingFailed, planted_bugs
from tests.mutants.rules import STANDS_FOR, beliefs, named

BUGS = planted_bugs()


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The patched files as they are now, in a folder of their own."""
    folder = tmp_path_factory.mktemp("sources")
    for module in {module for planted in BUGS for module in planted.modules}:
        file = Path(module.replace(".", "/") + ".pyx")
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / file, folder / file)
    return folder


@pytest.mark.parametrize("planted", BUGS, ids=lambda planted: planted.name)
def test_a_planted_bug_applies_to_the_sources_of_today(planted: Planted, sources: Path) -> None:
    """Who changes a line that a patch is about changes the patch too."""
    planted.apply(sources, only_check=True)


def test_there_are_twenty_bugs_and_three_harmless_changes() -> None:
    """Each says what it is, where the mistake comes from, and in which worlds it is looked for."""
    assert sum(not planted.is_harmless for planted in BUGS) >= 20
    assert sum(planted.is_harmless for planted in BUGS) >= 3
    for planted in BUGS:
        assert planted.title.endswith(".") and planted.source, planted.name
        assert planted.profile in ("", *PROFILES), planted.name
        assert not (planted.tests and planted.profile), planted.name
        assert all((ROOT / test.partition("::")[0]).is_file() for test in planted.tests[:1]), planted.name


def test_only_bodies_are_patched() -> None:
    """A header that changed would rebuild everything that includes it."""
    for planted in BUGS:
        for module in planted.modules:
            assert (ROOT / (module.replace(".", "/") + ".pyx")).is_file(), planted.name


def test_a_patch_that_no_longer_fits_says_so(tmp_path: Path) -> None:
    """The message names the tool, the folder and its own words."""
    file = tmp_path / (BUGS[0].modules[0].replace(".", "/") + ".pyx")
    file.parent.mkdir(parents=True)
    file.write_text("nothing of it\n")
    with pytest.raises(PlantingFailed, match="git apply"):
        BUGS[0].apply(tmp_path, only_check=True)


def test_the_small_worlds_are_closed_without_a_bug() -> None:
    """What falls in them falls by the planted bug; and their states are within what the hunt takes of each."""
    for name, bounds in SMALL_WORLDS.items():
        world = small_world(bounds)
        world.run(SMALL_STATES_MAX)
        assert world.violation is None, name
        assert world.counts["taken"] == world.counts["found"], name


def test_every_belief_of_a_core_stands_for_an_invariant() -> None:
    """A node that stopped itself is told by the rule that it kept."""
    assert set(STANDS_FOR) == set(beliefs().values())
    assert named("I4 state machine safety: node 2 a=1 b=2 event=3") == "I4 state machine safety"
    halted = named("a node stopped itself: node 1 a=98 b=10 event=7 time_ms=3")
    assert halted == "I4 state machine safety: a node stopped itself, BROKEN_TRUNCATED_COMMITTED"
    assert named("a node stopped itself: node 1 a=97 b=0") == "a node stopped itself, status 97"
