"""Folders, processes and a network that loses, repeats, delays and reorders, for tests of raft/genesis.

Messages and HELLOs may arrive at any time, HELLOs even at a later life of the name they were said to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.core.names import GenesisState, Status
from tests.faces.genesis import GenesisHandle

BLANK_RECORD = (GenesisState.BLANK, 0, 0, ())
HARMLESS = {Status.OK, Status.STALE, Status.FOREIGN_NODE, Status.NOT_FOUND}


@dataclass
class Folder:
    """What survives a crash, and the process that runs on it."""

    name: bytes
    incarnation: int
    record: tuple = BLANK_RECORD
    process: GenesisHandle | None = None
    boots: int = 0


@dataclass
class World:
    names: list[bytes]
    folders: dict[bytes, Folder] = field(default_factory=dict)
    hellos: list[tuple] = field(default_factory=list)
    messages: list[tuple] = field(default_factory=list)
    accepted: set[tuple[int, int, int]] = field(default_factory=set)
    founded: set[tuple[int, int]] = field(default_factory=set)
    born: int = 0

    def __post_init__(self) -> None:
        for name in self.names:
            self.folders[name] = Folder(name, self.new_incarnation())

    def new_incarnation(self) -> int:
        self.born += 1
        return 100 + self.born

    def start(self, name: bytes) -> None:
        folder = self.folders[name]
        folder.boots += 1
        draw = folder.incarnation * 1000 + folder.boots
        peers = [(peer, b"host:1") for peer in reversed(self.names)]
        folder.process = GenesisHandle(
            folder.incarnation, name, peers, folder.record, random_low=2 * draw, random_high=draw
        )

    def crash(self, name: bytes) -> None:
        self.folders[name].process = None

    def wipe(self, name: bytes) -> None:
        boots = self.folders[name].boots
        self.folders[name] = Folder(name, self.new_incarnation(), boots=boots)

    def say_hello(self, source: bytes, target: bytes) -> None:
        speaker, listener = self.folders[source], self.folders[target]
        if speaker.process is None or listener.process is None or source == target:
            return
        self.hellos.append((target, (source, speaker.incarnation, *speaker.process.claim)))

    def deliver_hello(self, position: int) -> None:
        target, hello = self.hellos[position]
        self.act(self.folders[target], lambda process: process.hello(*hello))

    def deliver_message(self, position: int) -> None:
        message = self.messages[position]
        for folder in self.folders.values():
            if folder.incarnation == message[4] and folder.process is not None:
                self.act(folder, lambda process: process.step(message))

    def tick(self, name: bytes) -> None:
        self.act(self.folders[name], GenesisHandle.tick)

    def persist(self, name: bytes) -> None:
        folder = self.folders[name]
        if folder.process is None or not folder.process.must_persist:
            return
        folder.record = folder.process.record
        state, low, high, _ = folder.record
        if state == GenesisState.ACCEPTED:
            self.accepted.add((folder.incarnation, low, high))
        if state == GenesisState.FOUNDED:
            self.founded.add((low, high))
        self.act(folder, GenesisHandle.persisted)

    def act(self, folder: Folder, action: Callable[[GenesisHandle], int]) -> None:
        if folder.process is None:
            return
        assert action(folder.process) in HARMLESS
        self.messages += folder.process.take_messages()

    def run_all(self) -> None:
        """Every process up, every connection new, nothing lost, until nothing moves any more."""
        self.hellos.clear()
        self.messages.clear()
        for name, folder in self.folders.items():
            if folder.process is None:
                self.start(name)
        for _ in range(12):
            for source in self.names:
                for target in self.names:
                    self.say_hello(source, target)
            while self.hellos:
                self.deliver_hello(0)
                del self.hellos[0]
            for name in self.names:
                self.tick(name)
            while self.messages:
                self.deliver_message(0)
                del self.messages[0]
                for name in self.names:
                    self.persist(name)
            for name in self.names:
                self.persist(name)

    def clusters(self, *states: int) -> set[tuple[int, int]]:
        """Cluster ids of the folders whose durable state is one of these."""
        return {(low, high) for state, low, high, _ in self.records() if state in states}

    def records(self) -> list[tuple]:
        return [folder.record for folder in self.folders.values()]
