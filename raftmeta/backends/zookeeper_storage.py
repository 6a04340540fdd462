"""KIP-30's Storage and Listener Registry on ZooKeeper: each key is a node, and its value is the node's data, as it is.

    <root>/keys/<key in percent encoding>     one node for each key, all side by side: a listing is one moment
    <root>/deletes/<00 to ff>                 written in each multi that removes a key whose SHA-256 begins so

A revision is the mzxid of a node. ZooKeeper compares versions, and a key that is removed and made anew begins with
version 0 again. So a write that expects a revision reads the version that belongs to it, and its multi also checks that
no key of the same `deletes` node was removed in between. Removing a key writes that node.

The same node tells a listener of a value whether its key was removed between two looks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from kazoo import exceptions as zk

from raftmeta.backends.zookeeper_places import (
    CLOCK,
    Children,
    Copy,
    Snapshot,
    fence_step,
    name_of,
    part_of,
    snapshot,
)
from raftmeta.backends.zookeeper_session import PACKET_BYTES_MAX, STEP_BYTES, AnyVersion, Session, Step, failed_step
from raftmeta.errors import (
    CompareFailed,
    Fenced,
    InvalidArgument,
    KeyExists,
    KeyMissing,
    NodeClosed,
    NotExecuted,
)
from raftmeta.interfaces import (
    Data,
    FenceLike,
    KeySetChange,
    KeySetListener,
    ListenerRegistry,
    Storage,
    StorageOperation,
    Stored,
    ValueChange,
    ValueListener,
    listener_call,
)
from raftmeta.operations import Create, Delete, Update
from raftmeta.recipes.deadline import DEFAULT_TIMEOUT_S, Deadline
from raftmeta.recipes.keys import NAME_CHARACTERS_MAX, to_bytes
from raftmeta.recipes.listeners import Change, Listeners

__all__ = ["ZooKeeperRegistry", "ZooKeeperStorage"]

KEYS = "keys"
DELETES = "deletes"


def _raw(data: object, field: str = "data") -> bytes:
    raw = to_bytes(data, field)  # type: ignore[arg-type]
    if len(raw) > PACKET_BYTES_MAX - STEP_BYTES - 3 * NAME_CHARACTERS_MAX:
        raise InvalidArgument(f"{field}: {len(raw)} bytes are more than a packet of ZooKeeper takes", field=field)
    return raw


def _deletes_of(session: Session, key: str) -> str:
    return f"{session.root}/{DELETES}/{hashlib.sha256(key.encode()).hexdigest()[:2]}"


class _Known(NamedTuple):
    """A key that a write expects something of. version: of its node, None: there is none. deletes: of that node."""

    revision: int
    version: int | None
    deletes: int


class ZooKeeperStorage(Storage):
    """The keys of one session's ensemble."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._is_closed = False

    def init(self, context: Any) -> None:
        raise InvalidArgument("context: this instance was set up by its back end already", field="context")

    def close(self) -> None:
        self._is_closed = True

    def _check_open(self) -> None:
        if self._is_closed:
            raise NodeClosed("this storage is closed")
        self._session.check_open()

    def _path(self, key: str | bytes) -> str:
        text = key if isinstance(key, str) else key.decode(errors="strict")
        return f"{self._session.root}/{KEYS}/{part_of(text, 'key')}"

    # --- reading ------------------------------------------------------------------------------------------------------
    def fetch(self, key: str, *, local: bool = False, timeout_s: float | None = 5.0) -> Future[bytes | None]:
        future: Future[bytes | None] = Future()
        self._path(key)

        def read() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                stored = self.get(key, local=local, timeout_s=timeout_s)
                future.set_result(None if stored is None else stored.data)
            except BaseException as error:
                future.set_exception(error)

        self._session.others.post(read)
        return future

    def get(self, key: str, *, local: bool = False, timeout_s: float | None = 5.0) -> Stored | None:
        self._check_open()
        path = self._path(key)
        (found,) = self._session.read(lambda client: [client.get_async(path)], Deadline(timeout_s), local=local)
        return None if isinstance(found, Exception) else Stored(found[0], found[1].mzxid)

    def children(self, namespace: str, *, local: bool = False, timeout_s: float | None = 5.0) -> frozenset[str]:
        self._check_open()
        path = f"{self._session.root}/{KEYS}"
        found = snapshot(self._session, path, Deadline(timeout_s), local=local, has_places=False)
        return frozenset(name for name in map(name_of, found.parts) if name.startswith(namespace))

    # --- writing ------------------------------------------------------------------------------------------------------
    def put(self, key: str, data: Data, *, fence: FenceLike | None = None, timeout_s: float | None = 5.0) -> int:
        self._check_open()
        if fence is not None:
            return self.multi([Create(key, data)], fence=fence, timeout_s=timeout_s)
        path, raw, deadline = self._path(key), _raw(data), Deadline(timeout_s)
        while True:
            try:
                return int(self._session.create(path, raw, deadline).mzxid)
            except zk.NodeExistsError:
                raise KeyExists(f"key {key!r} exists") from None
            except zk.NoNodeError:
                self._make_folders([], deadline)

    def update(
        self,
        key: str,
        data: Data,
        *,
        expected_revision: int = 0,
        fence: FenceLike | None = None,
        timeout_s: float | None = 5.0,
    ) -> int:
        self._check_open()
        if fence is not None or expected_revision:
            return self.multi(
                [Update(key, data, expected_revision=expected_revision)], fence=fence, timeout_s=timeout_s
            )
        try:
            return int(self._session.set(self._path(key), _raw(data), Deadline(timeout_s)).mzxid)
        except zk.NoNodeError:
            raise KeyMissing(f"key {key!r} does not exist") from None

    def delete(
        self, key: str, *, expected_revision: int = 0, fence: FenceLike | None = None, timeout_s: float | None = 5.0
    ) -> None:
        self.multi(
            [Delete(key, expected_revision=expected_revision, must_exist=True)], fence=fence, timeout_s=timeout_s
        )

    def multi(
        self, operations: Sequence[StorageOperation], *, fence: FenceLike | None = None, timeout_s: float | None = 5.0
    ) -> int:
        self._check_open()
        keys = [_checked(operation, number) for number, operation in enumerate(operations)]
        deadline, fences = Deadline(timeout_s), fence_step(self._session, fence)
        absent: set[int] = set()  # of what may be missing
        while True:
            steps = _Steps(self._session, fences)
            known = self._known(operations, keys, deadline)
            for number, operation in enumerate(operations):
                steps.add(
                    number, operation, self._path(keys[number]), keys[number], known.get(number), number in absent
                )
            steps.end()
            results = self._session.multi(steps.all, deadline)
            failure = failed_step(results)
            if failure is None:
                return max(int(result.mzxid) for result in results if hasattr(result, "mzxid"))
            position, error = failure
            if position < len(fences):
                raise Fenced(f"the fence {steps.all[0].path} is not held any more")
            if not self._may_try_again(steps, position, error, operations, keys, absent, deadline):
                raise NotExecuted(f"ZooKeeper refused the multi with {error!r}")

    def _known(self, operations: Sequence[StorageOperation], keys: list[str], deadline: Deadline) -> dict[int, _Known]:
        """Every key that is to have an expected revision, which is compared here. Raises CompareFailed, KeyMissing."""
        expecting = {
            number: operation.expected_revision
            for number, operation in enumerate(operations)
            if isinstance(operation, Update | Delete) and operation.expected_revision
        }
        if not expecting:
            return {}
        paths = {number: (_deletes_of(self._session, keys[number]), self._path(keys[number])) for number in expecting}
        found = self._session.read(
            lambda client: [
                ask
                for deletes, path in paths.values()
                for ask in (client.exists_async(deletes), client.exists_async(path))
            ],
            deadline,
            local=False,
        )
        known = {}
        for position, (number, expected) in enumerate(expecting.items()):
            deletes, stat = found[2 * position], found[2 * position + 1]
            if stat is None:
                raise KeyMissing(f"key {keys[number]!r} does not exist")
            if stat.mzxid != expected:
                raise CompareFailed(f"key {keys[number]!r} has revision {stat.mzxid}, not {expected}")
            if deletes is None:
                self._make_folders([deletes for deletes, _ in paths.values()], deadline)
                return self._known(operations, keys, deadline)
            known[number] = _Known(stat.mzxid, stat.version, deletes.version)
        return known

    def _may_try_again(
        self,
        steps: _Steps,
        position: int,
        error: Exception,
        operations: Sequence[StorageOperation],
        keys: list[str],
        absent: set[int],
        deadline: Deadline,
    ) -> bool:
        """Whether the refusal came from our own guesses, which are better now. Raises what the caller is to know."""
        number = steps.sources[position]
        if number is None:  # a node of ours
            if isinstance(error, zk.NoNodeError):
                self._make_folders(steps.own_paths(), deadline)
            return isinstance(error, zk.NoNodeError | zk.BadVersionError)
        operation, key = operations[number], keys[number]
        if isinstance(error, zk.BadVersionError):
            return True  # read it again: CompareFailed, unless a key was removed and made anew with what is expected
        if isinstance(error, zk.NodeExistsError):
            if isinstance(operation, Create):
                raise KeyExists(f"key {key!r} exists")
            absent.discard(number)
            return True
        if isinstance(error, zk.NoNodeError):
            if isinstance(operation, Create) or (isinstance(operation, Delete) and number in absent):
                self._make_folders([], deadline)
                return True
            if isinstance(operation, Delete) and not operation.must_exist:
                absent.add(number)
                return True
            raise KeyMissing(f"key {key!r} does not exist")
        return False

    def _make_folders(self, also: list[str], deadline: Deadline) -> None:
        self._session.make(deadline, f"{self._session.root}/{KEYS}", f"{self._session.root}/{CLOCK}", *also)


def _checked(operation: object, number: int) -> str:
    """The key of an operation. Raises InvalidArgument."""
    field = f"operations[{number}]"
    if not isinstance(operation, Create | Update | Delete):
        raise InvalidArgument(f"{field}: must be Create, Update or Delete, not {type(operation).__name__}", field=field)
    if isinstance(operation, Create | Update) and (operation.value is None or operation.lease):
        raise InvalidArgument(f"{field}: must have a value and no lease", field=field)
    key = operation.key
    try:
        return key if isinstance(key, str) else key.decode()
    except UnicodeDecodeError:
        raise InvalidArgument(f"{field}: its key is no text", field=field) from None


class _Steps:
    """The steps of a multi. sources: the number of the operation for each, None for those that we add."""

    def __init__(self, session: Session, fences: list[Step]) -> None:
        self.all: list[Step] = list(fences)
        self.sources: list[int | None] = [None] * len(fences)
        self._session = session
        self._deletes: dict[str, int] = {}  # the version that is checked
        self._deleted: set[str] = set()

    def _add(self, number: int | None, *steps: Step) -> None:
        self.all += steps
        self.sources += [number] * len(steps)

    def add(
        self, number: int, operation: StorageOperation, path: str, key: str, known: _Known | None, is_absent: bool
    ) -> None:
        version = AnyVersion if known is None or known.version is None else known.version
        if known is not None:
            self._deletes[_deletes_of(self._session, key)] = known.deletes
        if isinstance(operation, Create):
            self._add(number, Step("create", path, _raw(operation.value)))
        elif isinstance(operation, Update):
            self._add(number, Step("set", path, _raw(operation.value), version))
        elif is_absent:
            self._add(number, Step("create", path), Step("delete", path))  # refused if somebody made it meanwhile
        else:
            self._add(number, Step("delete", path, version=version))
            self._deleted.add(_deletes_of(self._session, key))

    def own_paths(self) -> list[str]:
        """Of the nodes that the multi touches beside keys and fences."""
        return sorted(self._deletes.keys() | self._deleted)

    def end(self) -> None:
        """Behind the others, so that their refusals come first. The answer to a write of data tells the revision."""
        for path in self.own_paths():
            kind = "set" if path in self._deleted else "check"
            self._add(None, Step(kind, path, version=self._deletes.get(path, AnyVersion)))
        if not any(step.kind == "set" for step in self.all):
            self._add(None, Step("set", f"{self._session.root}/{CLOCK}"))


# --- listeners --------------------------------------------------------------------------------------------------------
class _Value(Copy):
    """The listeners of one key. A call is flagged as coalesced unless it is certain that nothing was skipped."""

    def __init__(self, session: Session, key: str, listeners: Listeners[ValueChange]) -> None:
        super().__init__(session, f"{session.root}/{KEYS}/{part_of(key, 'key')}")
        self.listeners = listeners
        self._key = key
        self._deletes_path = _deletes_of(session, key)
        self._stat: Any = None
        self._deletes = 0  # as of a look that was not later than the one at the key
        self._revision = 0

    def _look(self, deadline: Deadline, *, is_first: bool) -> None:
        while True:
            before, found, exists, after = self.session.read(
                lambda client: [
                    client.exists_async(self._deletes_path),
                    client.get_async(self.path, watch=self.news),
                    client.exists_async(self.path, watch=self.news),
                    client.exists_async(self._deletes_path),
                ],
                deadline,
            )
            if isinstance(found, Exception) == (exists is None):
                break  # else it was made or removed in between
        stat = None if exists is None else found[1]
        removals = _version_of(after) - self._deletes
        self._tell(stat, None if stat is None else found[0], before, removals, is_first=is_first)
        self._stat, self._deletes = stat, _version_of(before)

    def _tell(self, stat: Any, value: bytes | None, before: Any, removals: int, *, is_first: bool) -> None:
        former = self._stat
        if stat is None:
            if former is None and not is_first:
                return
            # The key's removal wrote the other node, and whoever makes the key anew does so later than this look.
            revision = max(self._revision + 1, 0 if before is None else before.mzxid)
            exact = False
        elif former is None:
            revision, exact = stat.mzxid, stat.version == 0 and removals == 0
        else:
            if stat.mzxid == former.mzxid:
                return
            revision, exact = stat.mzxid, stat.czxid == former.czxid and stat.version == former.version + 1
        self._revision = revision if stat is not None or not is_first else 0
        if not is_first:
            self.listeners.tell(ValueChange(self._key, value, revision, not exact))


def _version_of(stat: Any) -> int:
    return -1 if stat is None else int(stat.version)


class _KeySet:
    """The listeners of one namespace."""

    def __init__(self, session: Session, namespace: str, listeners: Listeners[KeySetChange]) -> None:
        self.listeners = listeners
        self._namespace = namespace
        self._copy = Children(session, f"{session.root}/{KEYS}", self._on_change, has_places=False)
        self.close = self._copy.close

    def open(self, deadline: Deadline) -> None:
        self._copy.open(deadline)

    def _own(self, found: Snapshot) -> frozenset[str]:
        return frozenset(name for name in map(name_of, found.parts) if name.startswith(self._namespace))

    def _on_change(self, copy: Children) -> None:
        former, keys = self._own(copy.former), self._own(copy.now)
        if keys != former or copy.has_hidden:
            added, removed = keys - former, former - keys
            change = KeySetChange(self._namespace, keys, copy.now.revision, copy.coalesced, added, removed)
            self.listeners.tell(change)


class ZooKeeperRegistry(ListenerRegistry):
    """listeners_of: makes the listeners of one kind of change."""

    def __init__(self, session: Session, listeners_of: Callable[[type[Change]], Listeners[Change]]) -> None:
        self._session = session
        self._listeners_of: Any = listeners_of
        self._feeds: dict[tuple[type[Any], str], _Value | _KeySet] = {}
        self._is_closed = False

    def init(self, context: Any) -> None:
        raise InvalidArgument("context: this instance was set up by its back end already", field="context")

    def add_value_change_listener(self, key: str, listener: ValueListener) -> None:
        listener_call(ValueChange, listener)
        self._add(ValueChange, key, listener, _Value)

    def remove_value_change_listener(self, key: str, listener: ValueListener) -> None:
        self._remove(ValueChange, key, listener)

    def add_key_set_change_listener(self, namespace: str, listener: KeySetListener) -> None:
        listener_call(KeySetChange, listener)
        self._add(KeySetChange, namespace, listener, _KeySet)

    def remove_key_set_change_listener(self, namespace: str, listener: KeySetListener) -> None:
        self._remove(KeySetChange, namespace, listener)

    def _add(self, kind: type[Any], name: str, listener: object, make: Callable[..., Any]) -> None:
        if self._is_closed:
            raise NodeClosed("this listener registry is closed")
        self._session.check_open()
        while True:
            feed = self._feeds.get((kind, name))
            if feed is None:
                feed = self._feeds.setdefault((kind, name), make(self._session, name, self._listeners_of(kind)))
            feed.listeners.add(listener)
            try:
                feed.open(Deadline(DEFAULT_TIMEOUT_S))
            except BaseException:
                self._remove(kind, name, listener)
                raise
            if self._feeds.get((kind, name)) is feed:
                return
            if self._is_closed:  # meanwhile
                feed.close()
                raise NodeClosed("this listener registry is closed")

    def _remove(self, kind: type[Any], name: str, listener: object) -> None:
        feed = self._feeds.get((kind, name))
        if feed is None:
            return
        feed.listeners.remove(listener)
        if not len(feed.listeners) and self._feeds.pop((kind, name), None) is feed:
            feed.close()

    def close(self) -> None:
        self._is_closed = True
        feeds, self._feeds = self._feeds, {}
        for feed in feeds.values():
            feed.listeners.close()
            feed.close()
