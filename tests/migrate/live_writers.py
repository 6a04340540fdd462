"""Programs that write to an ensemble while it is moved, and know what the servers acknowledged to them.

A writer has a folder of its own: it makes sequential nodes, writes, replaces rights and deletes. Its model has each
node with data, version and rights. When a connection breaks it reads its folder again, because it cannot know. It stops
for good when the servers refuse a write: that is how it notices the lock of a cut over.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, NoAuthError, NoNodeError, OperationTimeoutError, SessionExpiredError
from kazoo.security import ACL, OPEN_ACL_UNSAFE, make_digest_acl

from tests.processes.waiting import wait_until

USER = "digest", "writer:secret"
OWN_ACL = [make_digest_acl("writer", "secret", all=True), *OPEN_ACL_UNSAFE]
KEPT = 40  # nodes of a writer
UNKNOWN = (ConnectionLoss, SessionExpiredError, OperationTimeoutError)
ASK_S = 30.0


class Known(NamedTuple):
    """A node as a writer left it."""

    data: bytes
    version: int
    acl: tuple[ACL, ...]


@contextmanager
def client_of(hosts: str, *, is_user: bool = True) -> Iterator[KazooClient]:
    """A client that proves to be the writers' user."""
    client = KazooClient(hosts, auth_data=[USER] if is_user else None)
    client.start(ASK_S)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def known(client: KazooClient, path: str) -> Known:
    data, stat = client.retry(client.get, path)
    return Known(data, stat.version, tuple(client.retry(client.get_acls, path)[0]))


class Writer:
    """One program. model: its nodes by path. numbers: of its sequential nodes, in the order of their creation."""

    def __init__(self, hosts: str, folder: str) -> None:
        self.hosts = hosts
        self.folder = folder
        self.model: dict[str, Known] = {}
        self.numbers: list[int] = []
        self.writes = 0
        self.failure: Exception | None = None
        self._is_refused = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=folder)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def wait_refused(self) -> None:
        """Return when the servers refuse its writes."""
        self._thread.join(ASK_S)
        assert self._is_refused.is_set(), self.failure

    def wait_written(self, count: int) -> None:
        """Return when it wrote so many times more."""
        wanted = self.writes + count
        wait_until(lambda: self.writes >= wanted or self.failure, timeout_s=ASK_S, what=f"{self.folder} to write")
        assert self.failure is None

    def _run(self) -> None:
        try:
            with client_of(self.hosts) as client:
                client.retry(client.ensure_path, self.folder)
                for number in itertools.count():
                    if self._stopping.is_set():
                        return
                    try:
                        self._write(client, number)
                        self.writes += 1
                    except UNKNOWN:
                        self._read_again(client)
        except NoAuthError:
            self._is_refused.set()
        except Exception as error:
            self.failure = error

    def _write(self, client: KazooClient, number: int) -> None:
        """One round. The model changes with each acknowledgement, so it is true wherever the round ends."""
        data = b"%d" % number
        path = client.create(f"{self.folder}/n-", data, sequence=True)
        self.numbers.append(int(path[-10:]))
        self.model[path] = Known(data, 0, tuple(OPEN_ACL_UNSAFE))
        older = next(iter(self.model))
        stat = client.set(older, b"again " + data)
        self.model[older] = self.model[older]._replace(data=b"again " + data, version=stat.version)
        if number % 5 == 0:
            client.set_acls(path, OWN_ACL)
            self.model[path] = self.model[path]._replace(acl=tuple(OWN_ACL))
        if len(self.model) > KEPT:
            client.delete(older)
            del self.model[older]

    def _read_again(self, client: KazooClient) -> None:
        client.retry(client.sync, self.folder)
        names = client.retry(client.get_children, self.folder)
        paths = [f"{self.folder}/{name}" for name in sorted(names)]
        self.model = {path: known(client, path) for path in paths}
        self.numbers = sorted({*self.numbers, *(int(path[-10:]) for path in paths)})


def differences(writers: Sequence[Writer], client: KazooClient, chroot: str = "") -> list[str]:
    """The nodes that a server has in another way than a writer left them; chroot: of the writers' own connections."""
    found = []
    for writer in writers:
        names = client.get_children(chroot + writer.folder)
        there = {f"{writer.folder}/{name}" for name in names}
        found += [f"{path} is missing" for path in writer.model.keys() - there]
        found += [f"{path} is there" for path in there - writer.model.keys()]
        for path in there & writer.model.keys():
            try:
                seen = known(client, chroot + path)
            except NoNodeError:
                found.append(f"{path} went")
                continue
            if (seen.data, seen.version, set(seen.acl)) != (*writer.model[path][:2], set(writer.model[path].acl)):
                found.append(f"{path}: {seen} in place of {writer.model[path]}")
    return found


def goes_on_counting(writer: Writer, client: KazooClient) -> bool:
    """Whether a server gives the writer's folder a number that no sequential node had before."""
    path = client.create(f"{writer.folder}/n-", b"", sequence=True)
    client.delete(path)
    return int(path[-10:]) > max(writer.numbers)
