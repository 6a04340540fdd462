"""A broker that needs no ZooKeeper: membership, an elected controller and topic metadata, inside its own process.

    python examples/broker.py 1 /var/lib/broker/1 1=127.0.0.1:7001 2=127.0.0.1:7002 3=127.0.0.1:7003

Start it three times, with ids 1, 2 and 3. Every broker joins the group "brokers", and one is elected controller. Only
the controller decides which broker leads which partition, and each of its writes carries its lead as a fence. So the
store refuses a controller that was frozen or cut off and comes back late, whatever it believes. All brokers follow the
metadata by watch, so they answer their clients from memory. Keys and values have the shapes that Kafka keeps in
ZooKeeper. Copy this file and make it yours.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import raftmeta
from raftmeta.interfaces import GroupChange, Held
from raftmeta.operations import Create, ModRevision, Operation, Put, Version

TOPICS = "/brokers/topics/"
STEP = 500  # keys that the controller changes in one transaction
TTL_S = 2.0  # a broker that is silent for so long is gone

log = logging.getLogger("broker")


def state_key(topic: str, partition: int) -> str:
    return f"{TOPICS}{topic}/partitions/{partition}/state"


def as_json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


class Broker:
    """One broker: a member, a candidate for the controller, and a follower of the metadata.

    states: the state of each partition by its key, and its revision, as far as this broker has followed.
    lead: the last lead that this broker had as controller, None before the first.
    """

    def __init__(
        self,
        id: int,
        peers: Mapping[int, str],
        folder: Path,
        *,
        config: raftmeta.Config | None = None,
        client_listen: str | None = None,
    ) -> None:
        self.id = id
        self.states: dict[str, tuple[dict[str, Any], int]] = {}
        self.lead: Held | None = None
        self.node = raftmeta.Node(
            str(id),
            peers={str(peer): address for peer, address in peers.items()},
            data_dir=folder,
            config=config,
            client_listen=client_listen,
        )
        self._brokers_changed = threading.Event()
        self._threads: list[threading.Thread] = []

    # --- life ---------------------------------------------------------------------------------------------------------
    def start(self, *, timeout_s: float = 30.0) -> None:
        """Return when this broker is a member of the group."""
        self.node.start()
        self.node.ready(timeout_s)
        self.brokers = self.node.group("brokers", ttl_s=TTL_S)
        self.controllers = self.node.election("controller", ttl_s=TTL_S)
        self.brokers.add_listener(self._on_brokers)
        self.brokers.join(str(self.id), self._registration())
        for work in (self._follow_metadata, self._be_controller):
            thread = threading.Thread(target=work, name=work.__name__, daemon=True)
            thread.start()
            self._threads.append(thread)

    def close(self) -> None:
        """Leave in order: the others take over at once instead of waiting for a time-out."""
        self.node.close()
        self._brokers_changed.set()
        for thread in self._threads:
            thread.join()

    def _registration(self) -> bytes:
        """The value of this broker's key below /brokers/ids."""
        port = 9092 + self.id
        endpoints = [f"PLAINTEXT://127.0.0.1:{port}"]
        return as_json({"version": 4, "host": "127.0.0.1", "port": port, "endpoints": endpoints, "rack": None})

    # --- what every broker does ---------------------------------------------------------------------------------------
    def _follow_metadata(self) -> None:
        """Keep the states of all partitions in memory: first all existing ones, then every change, none left out."""
        with self.node.watch(prefix=TOPICS, start_revision=1, reset=True) as changes:
            for change in changes:
                if isinstance(change, raftmeta.WatchReset):  # the history does not reach back so far
                    self.states = {}
                    for record in change.records:
                        self._learn(record)
                elif change.type == "put":
                    self._learn(change.record)
                else:
                    self.states.pop(change.key.decode(), None)

    def _learn(self, record: raftmeta.KeyRecord) -> None:
        key = record.key.decode()
        if key.endswith("/state"):
            self.states[key] = json.loads(record.value), record.mod_revision

    def _on_brokers(self, change: GroupChange) -> None:
        log.info("brokers %s", sorted(change.ids))
        self._brokers_changed.set()

    # --- what the controller does -------------------------------------------------------------------------------------
    def _be_controller(self) -> None:
        """Be a candidate for good; each turn of the outer loop is one lead of this broker."""
        try:
            for lead in self.controllers.terms(str(self.id)):
                log.info("controller, epoch %d", lead.epoch)
                self.lead = lead
                self._brokers_changed.set()
                while lead.held():
                    if self._brokers_changed.wait(0.1):
                        self._brokers_changed.clear()
                        self._try_to_lead_partitions(lead)
        except raftmeta.NodeClosed:
            pass

    def _try_to_lead_partitions(self, lead: Held) -> None:
        try:
            self.lead_partitions(lead)
        except raftmeta.Fenced:
            log.info("not the controller any more, epoch %d", lead.epoch)
        except (raftmeta.NotExecuted, raftmeta.OutcomeUnknown, raftmeta.CompareFailed) as error:
            log.info("trying again: %s", error)
            self._brokers_changed.set()

    def create_topics(self, names: list[str], *, partitions: int = 3, replicas: int = 3) -> None:
        """Create topics, as the controller. Raises Fenced when this broker is not the controller any more.

        Existing topics stay as they are.
        """
        if self.lead is None:
            raise raftmeta.Fenced("this broker never was the controller")
        ids = sorted(int(id) for id in self.brokers.membership_list())
        for number, name in enumerate(names):
            assigned = {
                str(one): [ids[(number + one + other) % len(ids)] for other in range(min(replicas, len(ids)))]
                for one in range(partitions)
            }
            topic = f"{TOPICS}{name}"
            then: list[Operation] = [Create(topic, as_json({"version": 1, "partitions": assigned}))]
            for one, isr in assigned.items():
                state = self._state(self.lead, isr[0], 0, isr)
                then.append(Create(state_key(name, int(one)), as_json(state)))
            self.node.txn([Version(topic) == 0], then, fence=self.lead)

    def lead_partitions(self, lead: Held) -> int:
        """Take lost brokers out of every ISR, and put returned ones back in; return how many states changed.

        A real broker is back in an ISR when its log has caught up; this one has no log.
        """
        alive = {int(id) for id in self.brokers.membership_list()}
        assigned: dict[str, dict[str, list[int]]] = {}
        changes: list[tuple[str, int, dict[str, Any]]] = []
        for record in self.node.range(prefix=TOPICS).records:  # in order of keys: a topic, then its partitions
            topic, _, rest = record.key.decode().removeprefix(TOPICS).partition("/partitions/")
            if not rest:
                assigned[topic] = json.loads(record.value)["partitions"]
                continue
            state = json.loads(record.value)
            isr = [replica for replica in assigned[topic][rest.removesuffix("/state")] if replica in alive]
            leader = state["leader"] if state["leader"] in isr else (isr[0] if isr else -1)
            if (leader, isr) != (state["leader"], state["isr"]):
                epoch = state["leader_epoch"] + (leader != state["leader"])
                changes.append((record.key.decode(), record.mod_revision, self._state(lead, leader, epoch, isr)))
        for begin in range(0, len(changes), STEP):
            part = changes[begin : begin + STEP]
            self.node.txn(
                [ModRevision(key) == revision for key, revision, _ in part],
                [Put(key, as_json(state)) for key, _, state in part],
                fence=lead,
            )
        log.info("changed %d partitions, epoch %d", len(changes), lead.epoch)
        return len(changes)

    def _state(self, lead: Held, leader: int, epoch: int, isr: list[int]) -> dict[str, Any]:
        """The value of a key below /brokers/topics/<topic>/partitions/<number>/state."""
        return {"controller_epoch": lead.epoch, "leader": leader, "version": 1, "leader_epoch": epoch, "isr": isr}


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    id, folder, *pairs = sys.argv[1:]
    peers = {int(peer): address for peer, _, address in (pair.partition("=") for pair in pairs)}
    broker = Broker(int(id), peers, Path(folder))
    try:
        broker.start()
        threading.Event().wait()
    except KeyboardInterrupt:  # also while it starts: the others may know it already
        broker.close()


if __name__ == "__main__":
    main()
