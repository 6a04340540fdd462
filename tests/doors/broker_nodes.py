"""Brokers of examples/python_broker.py, as processes on loopback. They leave no process behind."""

from __future__ import annotations

import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.processes.program import Program
from tests.processes.waiting import free_addresses

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "python_broker.py"
START_S = 60.0


class PythonBrokers:
    """A context: brokers that serve at `address`, which names all of them."""

    def __init__(self, folder: Path, *, names: str = "abc") -> None:
        self.folder = folder
        peers = dict(zip(names, free_addresses(len(names)), strict=True))
        self.addresses = dict(zip(names, free_addresses(len(names)), strict=True))
        known = [word for name, at in peers.items() for word in ("--peer", f"{name}={at}")]
        self.programs = {
            name: Program(
                [sys.executable, SCRIPT, "--name", name, *known, "--data", folder / name, "--kafka", at],
                log=folder / f"{name}.log",
            )
            for name, at in self.addresses.items()
        }

    @property
    def address(self) -> str:
        return ",".join(self.addresses.values())

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            for name in self.programs:
                self.start(name)
            for name in self.programs:
                self.await_serving(name)
        except BaseException:
            self.kill()
            raise
        return self

    def start(self, name: str) -> None:
        program = self.programs[name]
        program.log.write_text("")
        program.start()

    def await_serving(self, name: str) -> None:
        program = self.programs[name]
        program.wait_until(lambda: "serves at" in program.log.read_text(), timeout_s=START_S, what=f"{name} serves")

    def kill(self) -> None:
        for program in self.programs.values():
            program.kill()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
