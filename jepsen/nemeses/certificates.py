"""Certificates that are renewed, end, are revoked and change their authority, and keys of encryption that change, while
the run goes on. Only for secure runs (jepsen/papers.py has the files).

Each looks for its own effect: nodes tell when their certificate ends, how often they read their files, and whom they
refused. A revoked or expired node that goes on taking part, and a revoked client that is answered, end the run.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from functools import partial
from random import Random
from typing import ClassVar

from jepsen import broker
from jepsen.db import Brokers, WaitFailed
from jepsen.nemesis import Harm, Nemesis, Target
from jepsen.papers import Papers
from tests.processes.remote import ProcessGone, RemoteError

NOTICED_S = 6.0  # for nodes to read changed files, under load; they look each second
SETTLED_S = 1.0  # for what was under way when a client was cut off
STEP_S = 3.0  # for one node to read its keys
RETRY_S = 0.2
NOT_NOW = (RemoteError, ProcessGone, TimeoutError)


class LetIn(Exception):
    """Somebody without a valid certificate took part."""


class WithPapers(Nemesis):
    """One at a time has the papers in its hands, from begin to end: a new authority would readmit who is revoked."""

    needs_papers = True

    def __init__(self, cluster: Brokers, random: Random) -> None:
        super().__init__(cluster, random)
        self._has_turn = False

    @property
    def papers(self) -> Papers:
        assert self.cluster.papers is not None, "a secure run"
        return self.cluster.papers

    def begin(self, nodes: tuple[str, ...]) -> str:
        self.papers.turn.acquire()
        self._has_turn = True
        self.struck = nodes
        return self.strike(nodes)

    def strike(self, nodes: tuple[str, ...]) -> str:
        """As begin, with the papers in our hands."""
        raise NotImplementedError

    def end(self) -> None:
        if self._has_turn:
            try:
                self.heal()
            finally:
                self._has_turn = False
                self.papers.turn.release()

    def heal(self) -> None:
        """As end, with the papers in our hands. By default nothing."""

    def answering(self, names: Iterable[str]) -> list[str]:
        running = self.cluster.answering()
        return [name for name in names if name in running]

    def soon(self, condition: Callable[[], bool], what: str) -> bool:
        """Whether it comes about; another fault may keep it from that."""
        with contextlib.suppress(WaitFailed):
            self.cluster.wait_for(condition, what, timeout_s=NOTICED_S)
            return True
        return False

    def readings(self) -> dict[str, tuple[int, float]]:
        """Of each node that answers: its life, and how often it has read its files."""
        nodes = self.cluster.nodes
        return {name: (nodes[name].life, nodes[name].report["tls_readings"]) for name in self.cluster.answering()}

    def all_have_read(self, before: dict[str, tuple[int, float]]) -> bool:
        """Whether every node that runs has read its files since then, or was started."""
        running = [name for name, node in self.cluster.nodes.items() if node.is_alive]
        now = self.readings()
        return all(name in now and (name not in before or now[name] > before[name]) for name in running)

    def shows_new(self, name: str) -> bool:
        """Whether a node says that the end of its certificate is that of the file."""
        told = self.cluster.nodes[name].report.get("tls_certificate_expires_s")
        return told == self.papers.ends_s("node", name)


class Renew(WithPapers):
    """A new certificate, with the same key or another one, for running nodes. observed: nodes that use it."""

    name = "cert-renew"
    targets = ("one", "minority", "all")
    lasts_s = (0.0, 0.0)

    def strike(self, nodes: tuple[str, ...]) -> str:
        for name in nodes:
            self.papers.renew("node", name)
        self.soon(lambda: all(map(self.shows_new, self.answering(nodes))), "the new certificates")
        self.observed += sum(map(self.shows_new, self.answering(nodes)))
        return f"renewed {' '.join(nodes)}"


class Expire(WithPapers):
    """A node starts with a certificate that has ended, and is renewed later. observed: those that were refused."""

    name = "cert-expire"
    targets: ClassVar[tuple[Target, ...]] = ("one", "minority", "majority", "primaries", "all")
    harm = Harm.LIFE
    lasts_s = (1.0, 5.0)

    def strike(self, nodes: tuple[str, ...]) -> str:
        for name in nodes:
            self.papers.let_expire(name)
            self.cluster.nodes[name].kill()
            self.cluster.start(name)
        self.soon(lambda: all(map(self._is_refused, nodes)), "the expired to be refused")
        self.observed += sum(map(self._is_refused, nodes))
        return f"expired {' '.join(nodes)}"

    def _is_refused(self, name: str) -> bool:
        report = self.cluster.nodes[name].report
        if report.get("is_ready") and self.shows_new(name):
            raise LetIn(f"{name} serves with a certificate that has ended")
        return self.shows_new(name) and report["tls_handshakes_refused"] > 0

    def heal(self) -> None:
        try:
            for name in self.struck:
                self._is_refused(name)
        finally:
            for name in self.struck:
                self.papers.renew("node", name)


class Authority(WithPapers):
    """Another authority signs: all trust both, all get new certificates, the old one is trusted no more.

    observed: nodes that use a certificate of the new authority, and trust it alone.
    """

    name = "cert-authority"
    targets = ("all",)
    lasts_s = (0.0, 0.0)

    def strike(self, nodes: tuple[str, ...]) -> str:
        for step in (self.papers.begin_authority, self.papers.sign_anew):
            before = self.readings()
            step()
            self.soon(partial(self.all_have_read, before), "the papers to be read")
        return "signed anew"

    def heal(self) -> None:
        before = self.readings()
        self.papers.end_authority()
        self.soon(partial(self.all_have_read, before), "the papers to be read")
        now = self.readings()
        self.observed += sum(
            now[name] > before.get(name, (0, 0)) and self.shows_new(name) for name in self.answering(self.struck)
        )


class RevokeNode(WithPapers):
    """Nodes are revoked, and readmitted with another key. observed: those that lost touch with the others."""

    name = "cert-revoke-node"
    targets: ClassVar[tuple[Target, ...]] = ("one", "minority", "majority", "primaries")
    lasts_s = (2.0, 5.0)

    def strike(self, nodes: tuple[str, ...]) -> str:
        before = self.readings()
        for name in nodes:
            self.papers.revoke("node", name)
        have_read = self.soon(lambda: self.all_have_read(before), "the list to be read")
        if have_read and not self.soon(lambda: not any(map(self._serves, nodes)), "the revoked to be cut off"):
            raise LetIn(f"{' '.join(filter(self._serves, nodes))} serves, though it is revoked and all others know")
        self.observed += len(self.answering(nodes)) if have_read else 0
        return f"revoked {' '.join(nodes)}"

    def _serves(self, name: str) -> bool:
        node = self.cluster.nodes[name]
        return node.is_answering and bool(node.report["is_ready"])

    def heal(self) -> None:
        for name in self.struck:
            self.papers.readmit("node", name)


class RevokeClient(WithPapers):
    """A client process is revoked, and readmitted with another key. observed: processes that were refused."""

    name = "cert-revoke-client"
    targets: ClassVar[tuple[Target, ...]] = ("none",)
    lasts_s = (2.0, 5.0)

    def strike(self, nodes: tuple[str, ...]) -> str:
        self._client = self.random.choice(self.cluster.clients)
        self._answered: int | None = None
        before, refused = self.readings(), self._refused()
        self.papers.revoke("client", self._client.name)
        if self.soon(lambda: self.all_have_read(before), "the list to be read"):
            self.soon(lambda: self._refused() > refused, "the client to be refused")
            self.observed += self._refused() > refused
            time.sleep(SETTLED_S)
            self._answered = self._client.report["answered"]
        return f"revoked {self._client.name}"

    def _refused(self) -> float:
        reports = [self.cluster.nodes[name].report for name in self.cluster.answering()]
        return float(sum(report[word] for report in reports for word in broker.REFUSED_CLIENTS))

    def heal(self) -> None:
        answered = self._client.report.get("answered", 0)
        self.papers.readmit("client", self._client.name)
        if self._answered is not None and answered > self._answered:
            raise LetIn(f"{self._client.name} is revoked, and {answered - self._answered} of its operations were done")


class ChangeKey(WithPapers):
    """Another key of encryption: all can read with it, then all write with it. observed: nodes whose files have it."""

    name = "encryption-key"
    targets = ("all",)
    lasts_s = (0.0, 0.0)

    def strike(self, nodes: tuple[str, ...]) -> str:
        self._key = self.papers.add_key()
        self._all_read_keys()
        self.papers.use_key()
        return f"key {self._key}"

    def heal(self) -> None:
        self._all_read_keys()
        for name in self.answering(self.struck):
            self.observed += self.soon(partial(self._uses_key, name), "files with the new key")

    def _all_read_keys(self) -> None:
        """Every node that runs, whatever else strikes it; one that starts reads them anyway."""
        waiting = {(name, node.life) for name, node in self.cluster.nodes.items() if node.is_alive}
        deadline_s = time.monotonic() + NOTICED_S
        while waiting and time.monotonic() < deadline_s:
            for name, life in sorted(waiting):
                node = self.cluster.nodes[name]
                if not node.is_alive or node.life != life:
                    waiting.remove((name, life))
                elif node.is_answering:
                    with contextlib.suppress(*NOT_NOW):
                        node.call(broker.read_keys, timeout_s=STEP_S)
                        waiting.remove((name, life))
            time.sleep(RETRY_S)

    def _uses_key(self, name: str) -> bool:
        with contextlib.suppress(*NOT_NOW):
            return self._key in self.cluster.nodes[name].call(broker.keys_in_use, timeout_s=STEP_S)
        return False


NEMESES = (Renew, Expire, Authority, RevokeNode, RevokeClient, ChangeKey)
