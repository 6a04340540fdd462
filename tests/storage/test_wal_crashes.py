"""Every moment at which the power can fail: what was acknowledged is there, nothing is invented (D1, D2, D10, D11)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.faces.disk import SimulatedDisk
from tests.storage.driver import LogDriver

pytestmark = pytest.mark.usefixtures("each_encryption")

LIMITS = {"segment_bytes": 4096, "reserve_bytes": 4096, "alignment_bytes": 512}

# Sixty operations with everything in them: appends of all shapes, votes, conflicts, rolls, oversized batches, spare
# segments prepared and not, compaction, restart, install.
SCRIPT: list[Callable[[LogDriver], bool]] = [
    lambda log: log.open() is not None,
    lambda log: log.begin(),
    lambda log: log.append([10]),
    lambda log: log.append([], hard_state=(2, 7, 0)),
    lambda log: log.append([100, 200]),
    lambda log: log.prepare(2000),
    lambda log: log.append([300, 0, 40]),
    lambda log: log.append([10], back=2),
    lambda log: log.append([10], hard_state=(3, 0, 1)),
    lambda log: log.idle(),
    lambda log: log.append([900]),
    lambda log: log.prepare(8000),
    lambda log: log.append([700, 700]),
    lambda log: log.append([50, 50, 50], back=1),
    lambda log: log.kill(),
    lambda log: log.append([64]),
    lambda log: log.append([900, 10]),
    lambda log: log.append([], hard_state=(3, 9, 4)),
    lambda log: log.compact(4),
    lambda log: log.append([1000]),
    lambda log: log.prepare(4096),
    lambda log: log.append([1000], back=3),
    lambda log: log.append([6000]),
    lambda log: log.append([20, 20, 20, 20]),
    lambda log: log.idle(),
    lambda log: log.compact(8),
    lambda log: log.append([2000], back=2, hard_state=(4, 0, 8)),
    lambda log: log.append([1500]),
    lambda log: log.append([1500]),
    lambda log: log.compact(11),
    lambda log: log.kill(),
    lambda log: log.append([30]),
    lambda log: log.append([30, 30], back=2),
    lambda log: log.append([700], back=1),
    lambda log: log.append([700], back=1),
    lambda log: log.append([700], back=1),
    lambda log: log.append([700], back=1),
    lambda log: log.compact(99),
    lambda log: log.prepare(100_000),
    lambda log: log.prepare(100_000),
    lambda log: log.append([900]),
    lambda log: log.append([900]),
    lambda log: log.append([900]),
    lambda log: log.append([900]),
    lambda log: log.append([900], hard_state=(5, 5, 13)),
    lambda log: log.begin((40, 5, 77), (6, 0, 40)),
    lambda log: log.append([500]),
    lambda log: log.append([500, 500]),
    lambda log: log.append([500], back=1),
    lambda log: log.append([], hard_state=(7, 3, 41)),
    lambda log: log.prepare(4096),
    lambda log: log.append([2500]),
    lambda log: log.append([500]),
    lambda log: log.kill(),
    lambda log: log.compact(43),
    lambda log: log.append([500]),
    lambda log: log.append([500], back=1),
    lambda log: log.idle(),
    lambda log: log.append([10, 10, 10]),
    lambda log: log.append([10]),
]


def round_of_use(size: int) -> list[Callable[[LogDriver], bool]]:
    """Fill a segment with batches of another size than before, begin the next one, let the former go."""
    return [
        lambda log: log.prepare(100_000),
        *[lambda log: log.append([size])] * 3,
        lambda log: log.append([2200, 10], back=1, hard_state=(log.model.hard_state[0] + 1, 3, 0)),
        lambda log: log.compact(log.model.last - 1),
    ]


# Each file is used again and again, its stale batches at other places or at the same ones.
USED_AGAIN: list[Callable[[LogDriver], bool]] = [
    lambda log: log.open() is not None,
    lambda log: log.begin(),
    *round_of_use(700),
    *round_of_use(700),
    *round_of_use(300),
    lambda log: log.kill(),
    *round_of_use(700),
    *round_of_use(1200),
    *round_of_use(700),
]


def run_until_cut(log: LogDriver, script: list[Callable[[LogDriver], bool]]) -> None:
    """Do the script until the power fails, or to its end."""
    for operation in script:
        if not operation(log):
            return


def check_every_cut(fault: str, script: list[Callable[[LogDriver], bool]], **others: int) -> None:
    whole = SimulatedDisk()
    run_until_cut(LogDriver(whole, LIMITS), script)
    total = whole.counters[{"cut_at_sync": "syncs", "cut_at_write": "writes"}[fault]]
    assert total > 60
    for moment in range(1, total + 1):
        for seed in range(3):
            disk = SimulatedDisk(seed=moment * 31 + seed)
            disk.plan(**{fault: moment}, **others)
            log = LogDriver(disk, LIMITS)
            run_until_cut(log, script)
            assert disk.is_cut
            disk.plan()
            assert log.crash()
            # What was found is what a second power cut at once would find, too.
            assert log.crash()
            # And it is a log that goes on.
            if log.model.begun:
                assert log.append([123], hard_state=(99, 9, 9))
                assert log.crash()


def test_the_script_does_what_it_says() -> None:
    """Rolls, removals and restarts happen in it: a run without faults ends with several segments and a moved start."""
    disk = SimulatedDisk()
    log = LogDriver(disk, LIMITS)
    run_until_cut(log, SCRIPT)
    assert len(SCRIPT) == 60
    assert log.model.start[0] == 40 and log.model.last > 45
    opened = log.open()
    assert opened is not None and opened.start[0] > 40
    assert sum(name.endswith(".log") for name in disk.list_names()) >= 2


def test_segments_are_used_again_without_zeros() -> None:
    """decisions/log.md "Used again": once compaction keeps up, preparing a segment writes nothing."""
    disk = SimulatedDisk()
    log = LogDriver(disk, LIMITS)
    run_until_cut(log, USED_AGAIN)
    assert any(name.endswith(".retired") for name in disk.list_names())
    for size in (700, 300, 1200):
        before = disk.counters["writes"]
        assert log.prepare(100_000)
        assert disk.counters["writes"] == before
        for operation in round_of_use(size):
            assert operation(log)
        opened = log.open()
        assert opened is not None
        assert "".join(log.disk.list_names()).count(".retired") <= 8


@pytest.mark.parametrize("script", [SCRIPT, USED_AGAIN], ids=["everything", "used_again"])
def test_nothing_acknowledged_is_lost_when_the_power_fails_before_any_sync(
    script: list[Callable[[LogDriver], bool]],
) -> None:
    """decisions/log.md D1: the sync never happened; each of its sectors is kept, lost or torn."""
    check_every_cut("cut_at_sync", script)


@pytest.mark.parametrize("script", [SCRIPT, USED_AGAIN], ids=["everything", "used_again"])
def test_nothing_acknowledged_is_lost_when_the_power_fails_after_any_sync(
    script: list[Callable[[LogDriver], bool]],
) -> None:
    """The sync happened and nobody was told; the operation may be there as a whole."""
    check_every_cut("cut_at_sync", script, cut_after_sync=1)


@pytest.mark.parametrize("script", [SCRIPT, USED_AGAIN], ids=["everything", "used_again"])
def test_nothing_acknowledged_is_lost_when_the_power_fails_in_any_write(
    script: list[Callable[[LogDriver], bool]],
) -> None:
    """decisions/log.md D2: torn writes of every kind, in batches, marks, headers and files that are used again."""
    check_every_cut("cut_at_write", script)


def test_a_batch_that_was_cut_never_comes_back() -> None:
    """Found by random lives: a torn batch lacked only zeros, and a torn successor at the same place brought them."""
    for seed in range(300):
        log = LogDriver(SimulatedDisk(seed=seed), LIMITS)
        assert log.open() is not None and log.begin() and log.append([10])
        log.disk.plan(cut_at_write=1)
        assert not log.append([], hard_state=(3, 2, 0))
        log.disk.plan()
        assert log.crash()
        found = log.model.hard_state
        log.disk.plan(cut_at_sync=1)
        assert not log.append([700, 10])
        log.disk.plan()
        assert log.crash()
        assert log.model.hard_state == found


def test_what_an_unpublished_segment_held_stays_foreign() -> None:
    """Found by random lives: its uuid came back with the seed, and a batch of the former life with it."""
    for seed in range(40):
        log = LogDriver(SimulatedDisk(seed=seed), LIMITS)
        assert log.open() is not None and log.begin()
        assert log.append([900]) and log.append([900]) and log.kill()
        log.disk.plan(cut_at_sync=2)
        assert not log.append([900], hard_state=(4, 1, 0)) and log.disk.is_cut
        log.disk.plan()
        assert log.crash()
        assert log.begin((50, 3, 9), (3, 0, 50))
        assert log.kill()


@pytest.mark.parametrize("sector_bytes", [512, 4096])
def test_a_power_cut_at_rest_changes_nothing(sector_bytes: int) -> None:
    """Even the marks that were never synced may be torn: each acknowledged operation stands."""
    limits = dict(LIMITS, alignment_bytes=sector_bytes)
    for seed in range(60):
        log = LogDriver(SimulatedDisk(seed=seed, sector_bytes=sector_bytes), limits)
        for operation in SCRIPT[: 2 + seed]:
            assert operation(log)
        assert log.crash()
