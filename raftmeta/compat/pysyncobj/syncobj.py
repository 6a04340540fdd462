"""`SyncObj`: the object whose replicated methods run on every node.

    a call -> outbox -> batch in the log -> inbox -> _onTick -> the method -> callback

`_onTick` is the only place that runs a replicated method, a callback or a call of the program. With `autoTick` a thread
calls it, otherwise the program does. Other threads of this package only fill the inbox. The link (member.py, or
reader.py for an object without an address) knows the engine; this module does not.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from raftmeta.compat.pysyncobj.config import FAIL_REASON, SERIALIZER_STATE, SyncObjConf
from raftmeta.compat.pysyncobj.dns_resolver import globalDnsResolver
from raftmeta.compat.pysyncobj.encryptor import HAS_CRYPTO
from raftmeta.compat.pysyncobj.files import FIRST_INDEX, Batch, LocalFiles, Position
from raftmeta.compat.pysyncobj.journal import createJournal
from raftmeta.compat.pysyncobj.link import Arrived, Link, Loaded
from raftmeta.compat.pysyncobj.member import Member
from raftmeta.compat.pysyncobj.node import Node, TCPNode
from raftmeta.compat.pysyncobj.pickle import dumps, loads
from raftmeta.compat.pysyncobj.reader import Reader
from raftmeta.compat.pysyncobj.replicated import (
    Methods,
    SyncObjConsumer,
    SyncObjException,
    SyncObjExceptionWrongVer,
    replicated,
    replicated_sync,
)
from raftmeta.compat.pysyncobj.service import Service
from raftmeta.compat.pysyncobj.transport import TCPTransport, Transport, TransportNotReadyError
from raftmeta.compat.pysyncobj.version import VERSION

__all__ = [
    "FAIL_REASON",
    "HAS_CRYPTO",
    "SERIALIZER_STATE",
    "SyncObj",
    "SyncObjConf",
    "SyncObjConsumer",
    "SyncObjException",
    "SyncObjExceptionWrongVer",
    "createJournal",
    "replicated",
    "replicated_sync",
]

TUNE_PUBLISH_LOOK_S = 1.0
TUNE_PUBLISH_BYTES = 1 << 20
TUNE_PUBLISH_COMMANDS = 10_000
FORMAT_OWNERS_MAX = 1000  # lives of objects whose last batch is remembered; the oldest go first, on every node alike
log = logging.getLogger(__name__)


class _RAFT_STATE:
    FOLLOWER = 0
    CANDIDATE = 1
    LEADER = 2


class _COMMAND_TYPE:
    REGULAR = 0
    NO_OP = 1
    MEMBERSHIP = 2
    VERSION = 3


class SyncObj:
    """selfNode: "host:port" of this node; None: it only reads, and sends its calls to the others.

    otherNodes: the addresses of the others. conf: settings. consumers: SyncObjConsumers whose state is replicated, too.
    Attributes that a subclass sets after this constructor are replicated.
    """

    def __init__(
        self,
        selfNode: Node | str | None,
        otherNodes: Iterable[Node | str],
        conf: SyncObjConf | None = None,
        consumers: Iterable[Any] | None = None,
        nodeClass: Callable[[str], Node] = TCPNode,
        transport: Transport | None = None,
        transportClass: Callable[..., Transport] = TCPTransport,
    ) -> None:
        self.__conf = SyncObjConf() if conf is None else conf
        self.__conf.validate()
        globalDnsResolver().setTimeouts(self.__conf.dnsCacheTime, self.__conf.dnsFailCacheTime)
        globalDnsResolver().setPreferredAddrFamily(self.__conf.preferredAddrType)
        self.__nodeClass = nodeClass
        self.__selfNode = None if selfNode is None else self.__node(selfNode)
        self.__otherNodes = {self.__node(one) for one in otherNodes} - {self.__selfNode}
        self.__consumers = [_consumer(one) for one in consumers or ()]
        for consumer in self.__consumers:
            consumer._syncObj = self
        self.methods = Methods([self, *self.__consumers])
        self._methodToID = self.methods.ids
        self.__begin_fields()
        self.__connect(transport, transportClass)
        self.__properties: set[str] = set()
        self.__properties = set(vars(self))
        self.__start()

    def __begin_fields(self) -> None:
        self.__enabledCodeVersion = 0
        self.__raftState = _RAFT_STATE.FOLLOWER
        self.__raftCurrentTerm = 0
        self.__raftLeader: Node | None = None
        self.__led_s = 0.0
        self.__connectedNodes: set[Node] = set()
        self.__readonlyNodes: set[Node] = set()
        self.__isRemoved = False
        # The state: how far it is, and the last batch of each owner.
        self.__position = Position("", FIRST_INDEX, 0)
        self.__raftCommitIndex = FIRST_INDEX
        self.__seen: dict[str, int] = {}
        self.__initial: bytes | None = None
        self.__batchDone = 0
        self.__batchCallbacks: list[Any] | None = None
        self.__hasBegun = False
        self.__isLive = False
        self.__onReadyCalled = False
        self.__isStuck = False
        self.__refused: deque[Any] = deque()  # callbacks of calls that came without a leader
        # Dumps.
        self.__forceLogCompaction = False
        self.__sinceDump = 0
        self.__dumped_s = time.monotonic()
        self.__sizes: deque[tuple[int, int]] = deque()
        self.__publisher: threading.Thread | None = None
        self.__publishLooked_s = 0.0
        # Life.
        self.__startTime = time.monotonic()
        self.__onTickCallbacks: list[Callable[[], object]] = []
        self.__onTickCallbacksLock = threading.Lock()
        self.__destroying = threading.Event()
        self.__thread: threading.Thread | None = None

    def __connect(self, transport: Transport | None, transportClass: Callable[..., Transport]) -> None:
        name = None if self.__selfNode is None else str(self.__selfNode.id)
        self.__files = LocalFiles(self.__conf, name)
        self.__raftLog = self.__files.journal
        peers = {str(node.id) for node in self.__otherNodes}
        self.__link: Link
        self.__service: Service | None = None
        if name is None:
            self.__link = Reader(peers, self.__conf, self.__files)
        else:
            source = weakref.WeakMethod(self.__dump)
            member = Member(name, peers, self.__conf, self.__files, lambda: _called(source))
            self.__link = member
            self.__service = Service(self.__conf.bindAddress or name, member)
        self.__transport = transport or transportClass(self, self.__selfNode, self.__otherNodes)
        self.__transport.attach(self.__link)
        for message, callback in (
            ("status", self._getStatus),
            ("add", self._addNodeToCluster),
            ("remove", self._removeNodeFromCluster),
            ("set_version", self._setCodeVersion),
            ("transfer", self._transferLeadership),
        ):
            self.__transport.setOnUtilityMessageCallback(message, callback)
        self.__finalizer = weakref.finalize(self, _end, self.__link, self.__service, self.__files)

    def __start(self) -> None:
        if self.__conf.autoTick:
            owner = threading.current_thread()
            tried = threading.Event()
            self.__thread = threading.Thread(
                target=_tick_on, args=(weakref.ref(self), owner, tried, self.__destroying), name="raftmeta-pysyncobj"
            )
            self.__properties |= {"_SyncObj__thread"}
            self.__thread.start()
            tried.wait()
            return
        try:
            while not self.__transport.ready:
                self.__transport.tryGetReady()
                if not self.__transport.ready:
                    self.__destroying.wait(min(0.05, self.__conf.bindRetryTime))
        except TransportNotReadyError as error:
            self.__finalizer()
            raise SyncObjException("BindError") from error

    def __node(self, given: Node | str) -> Node:
        return given if isinstance(given, Node) else self.__nodeClass(given)

    # --- the life of the object ---------------------------------------------------------------------------------------
    def destroy(self) -> None:
        """End the node and the threads. With autoTick the thread does it, soon; else it is done on return."""
        self.__destroying.set()
        self.__link.inbox.news.set()
        if not self.__conf.autoTick:
            self._doDestroy()

    def destroy_synchronous(self) -> None:
        self.destroy()
        if self.__thread is not None:
            self.__thread.join()

    def _destroy(self) -> None:
        self.destroy()

    def _doDestroy(self) -> None:
        self.__finalizer()
        for consumer in self.__consumers:
            consumer._destroy()

    def tick_thread_alive(self) -> bool:
        return self.__thread is not None and self.__thread.is_alive()

    def waitReady(self) -> None:
        """Wait until the address is bound. Raises TransportNotReadyError."""
        self.__transport.waitReady()

    def waitBinded(self) -> None:
        """Wait until the address is bound. Raises SyncObjException."""
        try:
            self.__transport.waitReady()
        except TransportNotReadyError as error:
            raise SyncObjException("BindError") from error

    # --- calls --------------------------------------------------------------------------------------------------------
    def _applyCommand(self, command: bytes, callback: Any, commandType: int | None = None) -> None:
        if self.__raftLeader is None and not self.__conf.commandsWaitLeader:
            self.__refused.append(callback)
            self.__link.inbox.news.set()
            return
        prefix = b"" if commandType is None else bytes([commandType])
        if not self.__link.outbox.put(prefix + command, callback) and callback is not None:
            callback(None, FAIL_REASON.QUEUE_FULL)

    def getCodeVersion(self) -> int:
        return self.__enabledCodeVersion

    def setCodeVersion(self, newVersion: int, callback: Any = None) -> None:
        """Use the methods of this version on all nodes. Raises Exception: this program does not have it."""
        if newVersion > self.methods.version:
            raise Exception(f"wrong version, current version is {self.methods.version}, requested is {newVersion}")
        if newVersion < self.__enabledCodeVersion:
            raise Exception(f"wrong version, enabled version is {self.__enabledCodeVersion}, requested is {newVersion}")
        self._applyCommand(dumps(newVersion), callback, _COMMAND_TYPE.VERSION)

    def addNodeToCluster(self, node: Node | str, callback: Any = None) -> None:
        """Add a node; it may be started before or after."""
        self.__changeCluster("add", node, callback)

    def removeNodeFromCluster(self, node: Node | str, callback: Any = None) -> None:
        """Remove a node, answering or not."""
        self.__changeCluster("rem", node, callback)

    def __changeCluster(self, change: str, node: Node | str, callback: Any) -> None:
        if not self.__conf.dynamicMembershipChange:
            raise Exception("dynamicMembershipChange is disabled")
        self._applyCommand(dumps([change, str(self.__node(node).id)]), callback, _COMMAND_TYPE.MEMBERSHIP)

    def transferLeadership(self, node: Node | str | None = None, callback: Any = None) -> None:
        """Ask the engine to let another node lead; this node must lead. None: any. It returns at once."""
        target = None if node is None else self.__node(node)
        error = FAIL_REASON.SUCCESS
        if self.__raftState != _RAFT_STATE.LEADER:
            error = FAIL_REASON.NOT_LEADER
        elif (target is not None and target not in self.__connectedNodes) or not self.__connectedNodes:
            error = FAIL_REASON.REQUEST_DENIED
        else:
            self.__link.hand_over(None if target is None else str(target.id))
        if callback is not None:
            callback(None, error)

    def _setCodeVersion(self, args: list[Any], callback: Any) -> None:
        self.setCodeVersion(args[0], callback)

    def _addNodeToCluster(self, args: list[Any], callback: Any) -> None:
        self.addNodeToCluster(args[0], callback)

    def _removeNodeFromCluster(self, args: list[Any], callback: Any) -> None:
        if self.__selfNode is not None and args[0] == self.__selfNode.id:
            callback(None, FAIL_REASON.REQUEST_DENIED)
        else:
            self.removeNodeFromCluster(args[0], callback)

    def _transferLeadership(self, args: list[Any], callback: Any) -> None:
        self.transferLeadership(args[0] if args and args[0] else None, callback)

    # --- the tick -----------------------------------------------------------------------------------------------------
    def doTick(self, timeToWait: float = 0.0) -> None:
        """One tick by hand. timeToWait: seconds to wait for news when there is nothing to do."""
        assert not self.__conf.autoTick
        self._onTick(timeToWait)

    def _onTick(self, timeToWait: float = 0.0) -> None:
        with contextlib.suppress(TransportNotReadyError):
            self.__transport.tryGetReady()
        if not self.__transport.ready or self.__destroying.is_set():
            self.__destroying.wait(timeToWait)
            return
        self.__link.tended()
        self.__link.inbox.news.clear()
        if not self.__hasBegun:
            self.__begin()
        self.__look()
        hasWorked = self.__takeItems()
        self.__tellReady()
        while self.__refused:
            _tell(self.__refused.popleft(), None, FAIL_REASON.MISSING_LEADER)
        self.__compactIfDue()
        self.__serve()
        with self.__onTickCallbacksLock:
            callbacks = list(self.__onTickCallbacks)
        for callback in callbacks:
            callback()
        if not hasWorked and timeToWait > 0:
            self.__link.inbox.news.wait(timeToWait)

    def __begin(self) -> None:
        """The first tick: the state that this host has, before there is a leader. The subclass is made by now."""
        self.__hasBegun = True
        self.__initial = self.__dump()
        files = self.__files
        if files.dump is not None:
            self.__load(files.dump)
        if self.__conf.dynamicMembershipChange and files.members:
            self.__setMembers(files.members)
        before = sum(len(batch.commands) for _, batch in files.batches)
        self.__position = files.position._replace(index=files.position.index - before)
        for revision, batch in files.batches:
            self.__applyBatch(revision, batch, is_kept=True)
        files.batches, files.dump = [], None
        self.__sinceDump = before
        self.__raftCommitIndex = self.__position.index
        self.__link.begin(self.__position)
        if self.__service is not None:
            self.__service.begin()

    def __look(self) -> None:
        view = self.__link.look()
        now = time.monotonic()
        self.__connectedNodes = {node for node in self.__otherNodes if node.id in view.connected}
        if view.role == "leader":
            self.__led_s = now
            self.__turn(_RAFT_STATE.LEADER, view.term, self.__selfNode)
            return
        own = None if self.__selfNode is None else self.__selfNode.id
        if (
            self.__raftState == _RAFT_STATE.LEADER
            and view.leader in ("", own)
            and now - self.__led_s < self.__conf.leaderFallbackTimeout - 2 * self.__conf.raftMinTimeout
        ):
            # Nobody else leads, and PySyncObj's leader would not have given up yet. The engine's has given up for want
            # of answers, which it waits for at most twice raftMinTimeout.
            return
        state = _RAFT_STATE.CANDIDATE if view.role.endswith("candidate") else _RAFT_STATE.FOLLOWER
        self.__turn(state, view.term, self.__known(view.leader))

    def __known(self, name: str) -> Node | None:
        if not name:
            return None
        return next((node for node in self.__otherNodes if node.id == name), None) or self.__node(name)

    def __turn(self, state: int, term: int, leader: Node | None) -> None:
        old, self.__raftState = self.__raftState, state
        self.__raftCurrentTerm, self.__raftLeader = term, leader
        if old != state and self.__conf.onStateChanged is not None:
            self.__conf.onStateChanged(old, state)

    def __tellReady(self) -> None:
        if self.__isLive and not self.__onReadyCalled and self.__raftLeader is not None:
            self.__onReadyCalled = True
            if self.__conf.onReady is not None:
                self.__conf.onReady()

    # --- the log ------------------------------------------------------------------------------------------------------
    def __takeItems(self) -> bool:
        items = self.__link.inbox.items
        had = bool(items)
        self.__raftCommitIndex = max(
            self.__raftCommitIndex,
            self.__position.index + sum(len(one.batch.commands) for one in list(items) if isinstance(one, Arrived)),
        )
        while items and not self.__destroying.is_set():
            item = items[0]
            try:
                if isinstance(item, Loaded):
                    self.__becomeLoaded(item)
                elif isinstance(item, Arrived):
                    self.__applyBatch(item.revision, item.batch, is_kept=False)
                else:
                    self.__isLive = True
                    self.__tellMembers()
            except SyncObjExceptionWrongVer as error:
                if not self.__isStuck:
                    self.__isStuck = True
                    log.error("stopped at a command that needs a newer program index=%d: %s", self.__next, error.ver)
                return False
            items.popleft()
        self.__raftCommitIndex = max(self.__raftCommitIndex, self.__position.index)
        return had

    @property
    def __next(self) -> int:
        return self.__position.index + 1

    def __becomeLoaded(self, item: Loaded) -> None:
        dump = self.__initial if item.dump is None else item.dump
        if dump is not None:
            self.__load(dump)
        self.__position = item.position
        if item.dump is None:
            self.__seen = {}
        if self.__conf.dynamicMembershipChange:
            self.__setMembers(item.members)
        self.__sinceDump = 0
        self.__files.dumped(item.position, item.dump, item.members)
        if self.__service is not None:
            self.__service.forget()

    def __applyBatch(self, revision: int, batch: Batch, *, is_kept: bool) -> None:
        """Run the commands of a batch. is_kept: it comes from the journal.

        Raises SyncObjExceptionWrongVer: the next tick goes on with the command that raised.
        """
        if self.__seen.get(batch.owner, 0) >= batch.number:
            self.__position = self.__position._replace(revision=revision)
            return
        if self.__batchCallbacks is None:
            self.__batchCallbacks = self.__link.outbox.answered(batch)
        callbacks = self.__batchCallbacks
        first = self.__next - self.__batchDone
        for place in range(self.__batchDone, len(batch.commands)):
            result, error = self.__run(batch.commands[place])
            self.__position = self.__position._replace(index=first + place)
            self.__batchDone = place + 1
            _tell(callbacks[place] if place < len(callbacks) else None, result, error)
        self.__batchDone, self.__batchCallbacks, self.__isStuck = 0, None, False
        self.__position = self.__position._replace(revision=revision)
        self.__seen.pop(batch.owner, None)
        self.__seen[batch.owner] = batch.number
        if len(self.__seen) > FORMAT_OWNERS_MAX:
            del self.__seen[next(iter(self.__seen))]
        self.__sinceDump += len(batch.commands)
        self.__sizes.append((self.__position.index, sum(map(len, batch.commands))))
        if not is_kept:
            self.__files.applied(batch, first, revision)
            if self.__service is not None:
                self.__service.applied(revision, batch)

    def __run(self, command: bytes) -> tuple[Any, int]:
        """Run one command: its result, and why it failed. Raises SyncObjExceptionWrongVer."""
        kind = command[0]
        content = loads(command[1:])
        if kind == _COMMAND_TYPE.VERSION:
            self.__enable(content)
            return None, FAIL_REASON.SUCCESS
        if kind == _COMMAND_TYPE.MEMBERSHIP:
            return None, self.__changeMember(*content)
        number, name, args, kwargs = content
        method = self.methods.find(number, name)
        try:
            return method(*args, _doApply=True, **kwargs), FAIL_REASON.SUCCESS
        except Exception:
            # Every node ran the method on the same state, so what it changed before it raised is the same everywhere.
            log.exception("replicated method raised name=%s index=%d", name, self.__next)
            return None, FAIL_REASON.UNKNOWN_OUTCOME

    def __enable(self, version: int) -> None:
        if version > self.methods.version:
            raise SyncObjExceptionWrongVer(version)
        old, self.__enabledCodeVersion = self.__enabledCodeVersion, version
        if self.__conf.onCodeVersionChanged is not None:
            self.__conf.onCodeVersionChanged(old, version)

    # --- members ------------------------------------------------------------------------------------------------------
    def __changeMember(self, change: str, name: str) -> int:
        node = self.__node(name)
        if node == self.__selfNode:
            was, self.__isRemoved = self.__isRemoved, change == "rem"
            self.__tellMembers()
            return FAIL_REASON.SUCCESS if was != self.__isRemoved else FAIL_REASON.REQUEST_DENIED
        if (change == "add") == (node in self.__otherNodes):
            return FAIL_REASON.REQUEST_DENIED
        if change == "add":
            self.__otherNodes.add(node)
            self.__transport.addNode(node)
        else:
            self.__otherNodes.discard(node)
            self.__transport.dropNode(node)
        self.__tellMembers()
        return FAIL_REASON.SUCCESS

    def __members(self) -> list[str]:
        own = [] if self.__selfNode is None or self.__isRemoved else [str(self.__selfNode.id)]
        return sorted([*own, *(str(node.id) for node in self.__otherNodes)])

    def __setMembers(self, members: list[str]) -> None:
        new = {self.__node(name) for name in members} - {self.__selfNode}
        self.__isRemoved = False  # a node that was removed, and is started with a new folder, waits to be added
        for node in self.__otherNodes - new:
            self.__transport.dropNode(node)
        for node in new - self.__otherNodes:
            self.__transport.addNode(node)
        self.__otherNodes = new
        self.__tellMembers()

    def __tellMembers(self) -> None:
        if self.__isLive:
            self.__link.want(set(self.__members()))

    # --- dumps --------------------------------------------------------------------------------------------------------
    def __dump(self) -> bytes | None:
        """The state as bytes; None: it cannot be dumped."""
        facts = [self.__enabledCodeVersion, list(self.__seen.items())]
        try:
            if self.__conf.serializer is not None:
                return self.__dumpByProgram(self.__conf.serializer, facts)
            state = [{name: value for name, value in vars(self).items() if name not in self.__properties}]
            state += [consumer._serialize() for consumer in self.__consumers]
            return dumps([state, *facts])
        except Exception:
            log.exception("the state cannot be dumped: the log grows until it can")
            return None

    def __dumpByProgram(self, serializer: Callable[[str, Any], object], facts: list[Any]) -> bytes:
        path = str(self.__files.folder / "program")
        serializer(path, [None, *facts])
        check = self.__conf.serializeChecker
        while check is not None and check() == SERIALIZER_STATE.SERIALIZING:
            self.__destroying.wait(0.01)
        with open(path, "rb") as file:
            data = file.read()
        os.remove(path)
        return data

    def __load(self, dump: bytes) -> None:
        if self.__conf.deserializer is not None:
            path = self.__files.folder / "program"
            path.write_bytes(dump)
            state, version, seen = self.__conf.deserializer(str(path))
            path.unlink(missing_ok=True)
        else:
            state, version, seen = loads(dump)
        if state is not None:
            vars(self).update(state[0])
            for consumer, data in zip(self.__consumers, state[1:], strict=False):
                consumer._deserialize(data)
        self.__enabledCodeVersion = version
        self.__seen = dict(seen)

    def __compactIfDue(self) -> None:
        now = time.monotonic()
        is_due = self.__forceLogCompaction or self.__sinceDump > self.__conf.logCompactionMinEntries
        if not is_due and (now - self.__dumped_s < self.__conf.logCompactionMinTime or not self.__sinceDump):
            self.__publishIfDue(now, None)
            return
        if self.__batchDone or not self.__hasBegun:
            return  # in the middle of a batch that cannot go on
        self.__forceLogCompaction = False
        self.__dumped_s = now
        dump = self.__dump()
        if dump is not None and self.__position.lineage:
            self.__files.dumped(self.__position, dump, self.__members())
            self.__sinceDump = 0
        self.__publishIfDue(now, dump)

    def __publishIfDue(self, now: float, dump: bytes | None) -> None:
        """The leader gives its dump to the cluster, so that the log stays as short as a dump is long."""
        link = self.__link
        is_free = self.__publisher is None or not self.__publisher.is_alive()
        if self.__raftState != _RAFT_STATE.LEADER or not isinstance(link, Member) or not is_free or not self.__isLive:
            return
        if now - self.__publishLooked_s < TUNE_PUBLISH_LOOK_S or self.__batchDone:
            return
        self.__publishLooked_s = now
        head, size = link.head()
        while self.__sizes and self.__sizes[0][0] <= head:
            self.__sizes.popleft()
        waiting = sum(bytes_ for _, bytes_ in self.__sizes)
        if waiting < max(TUNE_PUBLISH_BYTES, size) and self.__position.index - head < TUNE_PUBLISH_COMMANDS:
            return
        dump = dump or self.__dump()
        if dump is not None:
            arguments = (self.__position, dump, self.__members())
            self.__publisher = threading.Thread(
                target=link.publish, args=arguments, name="raftmeta-pysyncobj-publish", daemon=True
            )
            self.__publisher.start()

    def forceLogCompaction(self) -> None:
        """Dump the state with the next tick."""
        self.__forceLogCompaction = True

    def _forceLogCompaction(self) -> None:
        self.forceLogCompaction()

    # --- those who ask ------------------------------------------------------------------------------------------------
    def __serve(self) -> None:
        service = self.__service
        if service is None:
            return
        for message, answer in service.asked():
            try:
                if not self.__transport.utility(message, answer):
                    answer(None, FAIL_REASON.REQUEST_DENIED)
            except Exception as error:
                answer(str(error), None)
        for reader in service.hungry():
            reader.feed(self.__position, self.__dump(), self.__members())
        service.tell(self.__link.look(), self.__raftLeader, is_live=self.__isLive)
        self.__readonlyNodes = {Node(name) for name in service.readers()}

    def addOnTickCallback(self, callback: Callable[[], object]) -> None:
        with self.__onTickCallbacksLock:
            self.__onTickCallbacks.append(callback)

    def removeOnTickCallback(self, callback: Callable[[], object]) -> None:
        with self.__onTickCallbacksLock, contextlib.suppress(ValueError):
            self.__onTickCallbacks.remove(callback)

    # --- what is known ------------------------------------------------------------------------------------------------
    def isNodeConnected(self, node: Node) -> bool:
        return node in self.__connectedNodes

    @property
    def selfNode(self) -> Node | None:
        return self.__selfNode

    @property
    def otherNodes(self) -> set[Node]:
        return self.__otherNodes.copy()

    @property
    def readonlyNodes(self) -> set[Node]:
        return self.__readonlyNodes.copy()

    @property
    def raftLastApplied(self) -> int:
        """The index of the last command that ran here; inside a replicated method that of the one before."""
        return self.__position.index

    @property
    def raftCommitIndex(self) -> int:
        return self.__raftCommitIndex

    @property
    def raftCurrentTerm(self) -> int:
        return self.__raftCurrentTerm

    @property
    def hasQuorum(self) -> bool:
        """Whether this node is connected to a majority, itself included."""
        own = self.__selfNode is not None
        return 2 * (len(self.__connectedNodes) + own) > len(self.__otherNodes) + own

    @property
    def conf(self) -> SyncObjConf:
        return self.__conf

    def _getConf(self) -> SyncObjConf:
        return self.__conf

    def _isLeader(self) -> bool:
        return self.__raftState == _RAFT_STATE.LEADER

    def _getLeader(self) -> Node | None:
        return self.__raftLeader

    def isReady(self) -> bool:
        """Whether the object once had all that was in the log, with a leader."""
        return self.__onReadyCalled

    def _isReady(self) -> bool:
        return self.isReady()

    def _getTerm(self) -> int:
        return self.__raftCurrentTerm

    def _getRaftLogSize(self) -> int:
        """Commands since the last dump on this host."""
        return self.__sinceDump

    def getStatus(self) -> dict[str, Any]:
        status: dict[str, Any] = {
            "version": VERSION,
            "revision": "deprecated",
            "self": self.__selfNode,
            "state": self.__raftState,
            "leader": self.__raftLeader,
            "has_quorum": self.hasQuorum,
            "partner_nodes_count": len(self.__otherNodes),
            "readonly_nodes_count": len(self.__readonlyNodes),
            "log_len": self.__sinceDump,
            "last_applied": self.raftLastApplied,
            "commit_idx": self.raftCommitIndex,
            "raft_term": self.__raftCurrentTerm,
            "leader_commit_idx": self.raftCommitIndex if self.__raftLeader is not None else None,
            "uptime": int(time.monotonic() - self.__startTime),
            "self_code_version": self.methods.version,
            "enabled_code_version": self.__enabledCodeVersion,
        }
        for node in self.__otherNodes:
            status[f"partner_node_status_server_{node.id}"] = 2 if self.isNodeConnected(node) else 0
        for node in self.__readonlyNodes:
            status[f"readonly_node_status_server_{node.id}"] = 2
        return status

    def _getStatus(self, args: list[Any], callback: Any) -> None:
        callback(self.getStatus(), None)

    def printStatus(self) -> None:
        """Write the status to the log."""
        for name, value in self.getStatus().items():
            log.info("%s: %s", name, value)

    def _printStatus(self) -> None:
        self.printStatus()


def _consumer(given: Any) -> SyncObjConsumer:
    if not isinstance(given, SyncObjConsumer) and getattr(given, "_consumer", None):
        given = given._consumer()
    if not isinstance(given, SyncObjConsumer):
        raise SyncObjException("Consumers must be inherited from SyncObjConsumer")
    return given


def _called(source: weakref.WeakMethod[Callable[[], bytes | None]]) -> bytes | None:
    method = source()
    return None if method is None else method()


def _tell(callback: Callable[[Any, Any], object] | None, result: Any, error: int) -> None:
    try:
        if callback is not None:
            callback(result, error)
    except Exception:
        log.exception("callback raised")


def _end(link: Link, service: Service | None, files: LocalFiles) -> None:
    """An object is destroyed, or nobody has it any more."""
    if service is not None:
        service.close()
    link.close()
    files.close()


def _tick_on(
    reference: weakref.ref[SyncObj], owner: threading.Thread, tried: threading.Event, destroying: threading.Event
) -> None:
    """The thread of autoTick. It ends with the object, or with the thread that made it."""
    first = reference()
    try:
        if first is not None:
            first._SyncObj__transport.tryGetReady()  # type: ignore[attr-defined]
    except TransportNotReadyError:
        log.exception("the address cannot be bound")
        return
    finally:
        tried.set()
    del first
    destroying.wait(0.1)  # the subclass finishes its constructor
    while owner.is_alive() and not destroying.is_set():
        target = reference()
        if target is None:
            return
        try:
            target._onTick(target.conf.autoTickPeriod)
        except Exception:
            log.exception("a tick raised")
            destroying.wait(target.conf.autoTickPeriod)
        del target
    target = reference()
    if target is not None:
        target._doDestroy()
