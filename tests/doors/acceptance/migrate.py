"""An ensemble of three is moved to three nodes with doors, and back, while everything that can be killed is killed.

The servers of one kind are started by the trial, those of the other kind here: so `--on zookeeper` moves the other way
round, from doors to an ensemble. Writers know what was acknowledged to them; nothing of it may be lost or changed.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from raftmeta.migrate.live import read_status
from tests.doors.acceptance.trial import Trial
from tests.doors.servers import KINDS, Servers
from tests.migrate.live_writers import USER, Writer, client_of, differences, goes_on_counting
from tests.processes.program import Program

WRITERS = 3
NODES = 10_000  # beside those of the writers
STEP_S = 300.0
REFUSED_S = 60.0  # of a machine that does all this at once; the figure is told
FAULTS = 6
SEED = 20


class Migrator:
    """`raftmeta migrate zookeeper live` with the options of one move."""

    def __init__(self, old: Servers, new: Servers, folder: Path) -> None:
        folder.mkdir()
        (folder / "auth").write_text(":".join(USER))
        self.folder = folder
        command = [sys.executable, "-m", "raftmeta.cli", "--json", "migrate", "zookeeper", "live"]
        command += ["--from", old.connect, "--to", new.connect, "--state", str(folder / "state")]
        self._command = [*command, "--from-auth", str(folder / "auth"), "--to-auth", str(folder / "auth")]

    def start(self, *words: str, is_back: bool = False) -> Program:
        log = self.folder / f"{words[0]}.log"
        log.unlink(missing_ok=True)
        return Program([*self._command, *(["--back"] if is_back else []), *words], log=log).start()

    def run(self, *words: str, is_back: bool = False) -> dict[str, object]:
        """The report of a step that must succeed."""
        program = self.start(*words, is_back=is_back)
        code = program.wait(timeout_s=STEP_S)
        assert code == 0, f"{words[0]} ended with {code}: {program.log_tail()}"
        told: dict[str, object] = json.loads(program.log.read_text().splitlines()[-1])
        return told

    @contextmanager
    def following(self, *, is_back: bool = False) -> Iterator[Program]:
        """A migrator that has walked once."""
        before = noted(self.folder)
        program = self.start("follow", is_back=is_back)
        try:
            program.wait_until(lambda: noted(self.folder) != before, timeout_s=STEP_S, what="it walked")
            yield program
        finally:
            program.kill()


def noted(folder: Path) -> object:
    """The status, as far as there is one."""
    if not (folder / "state" / "move.sqlite").exists():
        return None
    told = read_status(folder / "state")
    return told.get("nodes"), told.get("last zxid")


def run(trial: Trial) -> None:
    other = next(kind for name, kind in KINDS.items() if name != trial.kind)
    with other(trial.folder / "source") as old, trial.servers() as new:
        migrator = Migrator(old, new, trial.folder / "move")
        with client_of(old.connect) as client:
            for first in range(0, NODES, 500):
                batch = client.transaction()
                if first == 0:
                    batch.create("/much", b"")
                for number in range(first, first + 500):
                    batch.create(f"/much/{number}", b"%d" % number)
                batch.commit()
        writers = begin(old, "there")
        with trial.check("a migrator that is killed follows on"):
            program = migrator.start("follow")
            for writer in writers:
                writer.wait_written(100)
            program.kill()
        with trial.check("servers of both sides are killed"), migrator.following() as program:
            chance = random.Random(SEED)
            for number in range(FAULTS):
                servers = (old, new)[number % 2]
                victim = chance.randrange(len(servers.addresses))
                servers.kill(victim)
                writers[0].wait_written(20)
                servers.restart(victim)
            assert program.is_alive, program.log_tail()
        cut_over(trial, migrator, writers, new, "cut over", is_back=False)
        writers = begin(new, "back")
        with trial.check("the door is mirrored back"), migrator.following(is_back=True):
            for writer in writers:
                writer.wait_written(100)
        cut_over(trial, migrator, writers, old, "cut back", is_back=True)


def begin(servers: Servers, name: str) -> list[Writer]:
    writers = [Writer(servers.connect, f"/{name}{number}") for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    return writers


def cut_over(
    trial: Trial, migrator: Migrator, writers: Sequence[Writer], target: Servers, name: str, *, is_back: bool
) -> None:
    with trial.check(f"{name}: a killed one is gone on with"):
        program = migrator.start("cut-over", "--refused", str(REFUSED_S), is_back=is_back)
        for writer in writers:
            writer.wait_refused()
        program.kill()
    with trial.check(f"{name}: nothing is lost"):
        told = migrator.run("cut-over", "--refused", str(REFUSED_S), is_back=is_back)
        assert told["differences"] == 0
        with client_of(target.connect) as client:
            assert differences(writers, client) == []
            assert len(client.get_children("/much")) == NODES
            assert all(goes_on_counting(writer, client) for writer in writers)
    trial.tell(
        f"{name}: {told['nodes']} nodes, writes refused for {told['seconds of refused writes']} s after the restart"
    )
