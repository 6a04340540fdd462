"""What Kafka's KafkaZkClient does on its metastore, in Python: the acceptance of KIP-273 (kafka.zk.KafkaZkClient, 3.9).

Paths and the shapes of requests are Kafka's; data is left as bytes. Only public names of raftmeta.metastore are used,
so this is also an example of a program that runs on every store.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from raftmeta.metastore import (
    CheckOp,
    Code,
    CreateMode,
    CreateOp,
    CreateRequest,
    DeleteOp,
    DeleteRequest,
    ExistsRequest,
    GetChildrenRequest,
    GetDataRequest,
    MultiRequest,
    Request,
    SetDataOp,
    SetDataRequest,
    ZkOp,
)

PERSISTENT_PATHS = (
    "/brokers",
    "/brokers/ids",
    "/brokers/topics",
    "/brokers/seqid",
    "/config",
    "/config/changes",
    "/admin",
    "/admin/delete_topics",
    "/isr_change_notification",
    "/kafka-acl",
    "/kafka-acl-changes",
)
SEQUENTIAL = CreateMode.PERSISTENT_SEQUENTIAL
EPHEMERAL = CreateMode.EPHEMERAL
UNKNOWN_VERSION = -2  # of a znode that is to be created


class ControllerMoved(Exception):
    """Another broker is the controller, or became it meanwhile: this one must stop to act as one."""


class BrokerExists(Exception):
    """Another session has registered a broker with this id."""


class KafkaStore:
    """One broker's view of its metastore. store: raftmeta.metastore.Metastore, or one that looks like it."""

    def __init__(self, store: Any) -> None:
        self.store = store

    # --- asking -----------------------------------------------------------------------------------------------------

    def ask_until_connected(self, requests: Sequence[Request[Any]]) -> list[Any]:
        """KafkaZkClient.retryRequestsUntilConnected: ask those again whose connection was lost."""
        answers: dict[int, Any] = {}
        remaining = list(enumerate(requests))
        while remaining:
            given = self.store.handle_requests([request for _, request in remaining])
            lost = []
            for (place, request), answer in zip(remaining, given, strict=True):
                if answer.result_code == Code.CONNECTIONLOSS:
                    lost.append((place, request))
                else:
                    answers[place] = answer
            remaining = lost
            if remaining:
                self.store.wait_until_connected()
        return [answers[place] for place in range(len(requests))]

    def ask(self, request: Request[Any]) -> Any:
        return self.ask_until_connected([request])[0]

    # --- the tree ---------------------------------------------------------------------------------------------------

    def make_persistent_paths(self) -> None:
        for path in PERSISTENT_PATHS:
            self.make_path(path)

    def make_path(self, path: str) -> None:
        """KafkaZkClient.createRecursive, where it may exist already."""
        answer = self.ask(CreateRequest(path, None))
        if answer.result_code == Code.NONODE:
            self.make_path(path.rpartition("/")[0])
            answer = self.ask(CreateRequest(path, None))
        if answer.result_code != Code.NODEEXISTS:
            answer.maybe_throw()

    def children(self, path: str, *, register_watch: bool = False) -> list[str]:
        answer = self.ask(GetChildrenRequest(path, register_watch=register_watch))
        if answer.result_code == Code.NONODE:
            return []
        answer.maybe_throw()
        return sorted(answer.children)

    def data(self, path: str) -> tuple[bytes | None, int]:
        """Data and version; UNKNOWN_VERSION of a znode that is not there."""
        answer = self.ask(GetDataRequest(path))
        if answer.result_code == Code.NONODE:
            return None, UNKNOWN_VERSION
        answer.maybe_throw()
        return answer.data, answer.stat.version

    def delete_recursive(self, path: str, epoch_version: int = -1) -> bool:
        """KafkaZkClient.deleteRecursive: children first; another deleter may be at work at the same time."""
        answer = self.ask(GetChildrenRequest(path, register_watch=False))
        if answer.result_code == Code.NONODE:
            return False
        answer.maybe_throw()
        for child in answer.children:
            self.delete_recursive(f"{path}/{child}", epoch_version)
        deleted = self.fenced(DeleteOp(path), epoch_version)
        if deleted != Code.NONODE:
            check_code(deleted)
        return True

    # --- brokers ----------------------------------------------------------------------------------------------------

    def register_broker(self, id: int, data: bytes) -> int:
        """Register a broker in this session and return its epoch, which is the czxid of its znode.

        KafkaZkClient.CheckedEphemeral: a multi creates it and sets its data, only to learn its Stat.
        """
        path = f"/brokers/ids/{id}"
        answer = self.ask(MultiRequest([CreateOp(path, None, create_mode=EPHEMERAL), SetDataOp(path, data, 0)]))
        if answer.result_code == Code.OK:
            epoch: int = answer.zk_op_results[1].stat.czxid
            return epoch
        if answer.result_code != Code.NODEEXISTS:
            answer.maybe_throw()
        found = self.ask(GetDataRequest(path))
        if found.result_code == Code.NONODE:
            return self.register_broker(id, data)  # it went between the two
        found.maybe_throw()
        if found.stat.ephemeral_owner != self.store.session_id:
            raise BrokerExists(path)
        epoch = found.stat.czxid  # the first attempt was done, and its answer lost
        return epoch

    def broker_epochs(self) -> dict[int, int]:
        """KafkaZkClient.getAllBrokerAndEpochsInCluster."""
        ids = self.children("/brokers/ids", register_watch=True)
        answers = self.ask_until_connected([GetDataRequest(f"/brokers/ids/{id}", ctx=int(id)) for id in ids])
        return {answer.ctx: answer.stat.czxid for answer in answers if answer.result_code == Code.OK}

    def generate_broker_id(self) -> int:
        """The version of an empty set: no two brokers get the same number."""
        answer = self.ask(SetDataRequest("/brokers/seqid", b"", -1))
        answer.maybe_throw()
        version: int = answer.stat.version
        return version

    # --- the controller ---------------------------------------------------------------------------------------------

    def controller(self) -> int | None:
        data, _ = self.data("/controller")
        return None if data is None else int(data)

    def controller_epoch(self) -> tuple[int, int]:
        """Epoch and version of its znode, which is made if it is missing."""
        data, version = self.data("/controller_epoch")
        if data is not None:
            return int(data), version
        answer = self.ask(CreateRequest("/controller_epoch", b"0"))
        if answer.result_code != Code.NODEEXISTS:
            answer.maybe_throw()
        data, version = self.data("/controller_epoch")
        assert data is not None
        return int(data), version

    def become_controller(self, id: int) -> tuple[int, int]:
        """KafkaZkClient.registerControllerAndIncrementControllerEpoch: the new epoch, and the version to fence with.

        Raises ControllerMoved: another broker is the controller.
        """
        epoch, version = self.controller_epoch()
        answer = self.ask(
            MultiRequest(
                [
                    CreateOp("/controller", b"%d" % id, create_mode=EPHEMERAL),
                    SetDataOp("/controller_epoch", b"%d" % (epoch + 1), version),
                ]
            )
        )
        if answer.result_code == Code.OK:
            return epoch + 1, answer.zk_op_results[1].stat.version
        if answer.result_code not in (Code.NODEEXISTS, Code.BADVERSION):
            answer.maybe_throw()
        # The first attempt may have been done, and its answer lost: look whether it was this broker that won.
        now, now_version = self.controller_epoch()
        if now == epoch + 1 and self.controller() == id:
            return now, now_version
        raise ControllerMoved(f"{self.controller()} is the controller")

    def resign(self, epoch_version: int) -> None:
        self.fenced(DeleteOp("/controller"), epoch_version)

    def fenced(self, op: ZkOp, epoch_version: int) -> Code:
        """Do one operation of a controller only if it still is the controller (wrapRequestWithControllerEpochCheck).

        epoch_version -1: of no controller. Raises ControllerMoved.
        """
        if epoch_version == -1:
            answer = self.ask(MultiRequest([op]))
            code: Code = answer.result_code
            return code
        answer = self.ask(MultiRequest([CheckOp("/controller_epoch", epoch_version), op]))
        if answer.zk_op_results and answer.zk_op_results[0].result_code == Code.BADVERSION:
            raise ControllerMoved("the controller epoch changed")
        code = answer.result_code
        return code

    def fenced_all(self, ops: Iterable[ZkOp], epoch_version: int) -> list[Code]:
        """Many of them, pipelined."""
        check = CheckOp("/controller_epoch", epoch_version)
        answers = self.ask_until_connected([MultiRequest([check, op]) for op in ops])
        if any(each.zk_op_results[0].result_code == Code.BADVERSION for each in answers):
            raise ControllerMoved("the controller epoch changed")
        return [each.result_code for each in answers]

    # --- topics -----------------------------------------------------------------------------------------------------

    def create_topic(self, topic: str, assignment: dict[int, list[int]]) -> None:
        data = json.dumps({"version": 1, "partitions": assignment}).encode()
        self.ask(CreateRequest(f"/brokers/topics/{topic}", data)).maybe_throw()

    def create_partitions(self, topic: str, partitions: dict[int, list[int]], epoch_version: int) -> None:
        """The controller's part: the znodes of a topic's partitions and their states, three pipelined rounds."""
        base = f"/brokers/topics/{topic}/partitions"
        check_code(self.fenced(CreateOp(base, None), epoch_version))
        for code in self.fenced_all((CreateOp(f"{base}/{number}", None) for number in partitions), epoch_version):
            check_code(code)
        states = (CreateOp(f"{base}/{number}/state", state(replicas)) for number, replicas in partitions.items())
        for code in self.fenced_all(states, epoch_version):
            check_code(code)

    def update_state(self, topic: str, partition: int, replicas: list[int], version: int, epoch_version: int) -> int:
        """KafkaZkClient.updateLeaderAndIsr of one partition: the version. Raises RequestRefused, ControllerMoved."""
        path = f"/brokers/topics/{topic}/partitions/{partition}/state"
        check = CheckOp("/controller_epoch", epoch_version)
        answer = self.ask(MultiRequest([check, SetDataOp(path, state(replicas), version)]))
        if answer.zk_op_results[0].result_code == Code.BADVERSION:
            raise ControllerMoved("the controller epoch changed")
        answer.maybe_throw()
        new: int = answer.zk_op_results[1].stat.version
        return new

    # --- notifications ----------------------------------------------------------------------------------------------

    def notify(self, kind: str, data: bytes) -> str:
        """A sequential znode: `isr_change_notification/isr_change_`, `config/changes/config_change_` and the like."""
        answer = self.ask(CreateRequest(f"/{kind}", data, create_mode=SEQUENTIAL))
        answer.maybe_throw()
        name: str = answer.name
        return name

    def take_notifications(self, parent: str, epoch_version: int) -> list[bytes]:
        """Read all of them in their order, delete them, and arm the handler of their parent again."""
        names = self.children(parent, register_watch=True)
        answers = self.ask_until_connected([GetDataRequest(f"{parent}/{name}") for name in names])
        self.fenced_all((DeleteOp(f"{parent}/{name}") for name in names), epoch_version)
        return [answer.data for answer in answers if answer.result_code == Code.OK]

    # --- ACLs and other conditional updates -------------------------------------------------------------------------

    def update_conditionally(self, path: str, data: bytes, version: int) -> tuple[bool, int]:
        """Whether it was set, and the version now (conditionalUpdatePath, conditionalSetAclsForResource)."""
        if version == UNKNOWN_VERSION:
            made = self.ask(CreateRequest(path, data))
            if made.result_code == Code.NODEEXISTS:
                return False, version
            made.maybe_throw()
            return True, 0
        answer = self.ask(SetDataRequest(path, data, version))
        if answer.result_code in (Code.BADVERSION, Code.NONODE):
            return False, version
        answer.maybe_throw()
        return True, answer.stat.version

    def delete_conditionally(self, path: str, version: int) -> bool:
        """conditionalDelete."""
        answer = self.ask(DeleteRequest(path, version))
        if answer.result_code in (Code.BADVERSION, Code.NONODE):
            return False
        answer.maybe_throw()
        return True

    def change_acl(self, resource: str, principal: str, *, retries: int = 100) -> None:
        """AclAuthorizer.updateResourceAcls: read, change, set if nobody was faster; then tell the other brokers."""
        path = f"/kafka-acl/{resource}"
        for _ in range(retries):
            data, version = self.data(path)
            names = sorted({*json.loads(data or b"[]"), principal})
            if self.update_conditionally(path, json.dumps(names).encode(), version)[0]:
                self.notify("kafka-acl-changes/acl_changes_", resource.encode())
                return
        raise AssertionError(f"{resource} was never set")

    def exists(self, path: str) -> bool:
        """Arms the change handler of the path."""
        answer = self.ask(ExistsRequest(path))
        if answer.result_code != Code.NONODE:
            answer.maybe_throw()
        return bool(answer.result_code == Code.OK)


def state(replicas: list[int]) -> bytes:
    """The state of a partition, the first replica leading."""
    return json.dumps({"leader": replicas[0], "isr": replicas}).encode()


def check_code(code: Code) -> None:
    assert code == Code.OK, code.name
