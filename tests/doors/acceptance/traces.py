"""Programs that ask for everything: every line must be the one that a real ZooKeeper wrote (tests/doors/traces.py)."""

from __future__ import annotations

from tests.doors.acceptance.trial import Trial
from tests.doors.traces import GOLDEN, difference, read, record, written


def run(trial: Trial, *, write: bool = False) -> None:
    with trial.servers() as servers:
        told = record(servers, trial.folder)
    (trial.folder / "traces.txt").write_text(written(told))
    if write:
        GOLDEN.write_text(written(told))
    for name, lines in read(GOLDEN.read_text()).items():
        if found := difference(lines, told[name]):
            trial.tell(found)
        trial.add(name, 0, found and "the lines differ")
