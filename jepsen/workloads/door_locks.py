"""ZooKeeper's lock through the door: ephemeral sequential nodes, of which the first one holds."""

from __future__ import annotations

from typing import Any

from kazoo.exceptions import NodeExistsError, NoNodeError

from jepsen.client import Client
from jepsen.clock import now_ns
from jepsen.door_session import DoorRefused, Reply
from jepsen.workloads.base import encoded
from jepsen.workloads.doors import DoorWorkload, expect

NUMBER_DIGITS = 10


class ZookeeperLock(DoorWorkload):
    """Who made the lowest number writes to a resource by multis that check its node, until the node is gone.

    It goes by deletion, by the end of its session, and by the time-out of a session that was left without a word. The
    token is the node's czxid, which must grow with its number.
    """

    name = "zookeeper-lock"
    model = None

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._subject = f"{self.name}/{client.group}"
        self._parent = f"/{self.name}-{client.group}"
        self._resource = f"{self._parent}-resource"
        self._has_parent = False
        self._path = ""
        self._token = 0
        self._life = 0
        self._is_holder = False
        self._old: tuple[str, int] | None = None

    async def act(self) -> None:
        choice = self.client.random.random()
        if self._path and self._life != self.session.life:
            self._say("lease_lost", self._token)
            self._forget()
        if not self._has_parent:
            self._has_parent = await self._make(self._parent) and await self._make(self._resource)
        elif self._old is not None and choice < 0.5:
            if not await self._write(*self._old):
                self._old = None
        elif not self._path:
            await self._enter()
        elif not self._is_holder:
            await self._look()
        elif choice < 0.9:
            before_ns = now_ns()
            if self.session.is_held():
                self._say("held", self._token, time_ns=before_ns)
            if not await self._write(self._path, self._token):
                self._forget()
        else:
            await self._leave(choice)

    def _say(self, kind: str, token: int, *, revision: int = -1, time_ns: int | None = None) -> None:
        self.client.spool.observe(
            kind,
            self._subject,
            process=self.client.process,
            token=token,
            revision=revision,
            value=self.client.name,
            time_ns=time_ns,
        )

    def _forget(self) -> None:
        """The node is gone, or may be: later writes under its token are to be refused, once one was."""
        self._old = (self._path, self._token)
        self._path, self._token, self._is_holder = "", 0, False

    # --- in line ------------------------------------------------------------------------------------------------------
    async def _make(self, path: str) -> bool:
        return await self.refused(NodeExistsError, lambda: self.create(path, b"")) is not None

    async def _enter(self) -> None:
        process = self.client.process
        life = self.session.life
        made = await self.client.attempt(lambda: self.create(f"{self._parent}/n-", b"", ephemeral=True, sequence=True))
        if made is not None:
            path, stat = made.value
            self._path, self._token, self._life = path, stat.czxid, life
            self.say("zookeeper_sequence", self._subject, revision=stat.czxid, token=_number(path))
        elif process != self.client.process:
            await self._start_anew()  # a node of this session may stand in line, and nobody would ever take it away

    async def _look(self) -> None:
        was_held = self.session.is_held()
        reply = await self.client.attempt(lambda: self.session.ask(lambda zk: zk.get_children_async(self._parent)))
        if reply is None:
            return
        names = sorted(reply.value, key=_number)
        mine = self._path.rpartition("/")[2]
        if was_held and self._life == self.session.life and self.session.is_held():
            found = self._token if mine in names else -1
            self.say("member_read", f"{self._subject}/line", token=self._token, value=str(found))
        if mine not in names:
            self._forget()
        elif names[0] == mine:
            self._is_holder = True
            self._say("lease_granted", self._token, revision=reply.zxid)

    # --- held ---------------------------------------------------------------------------------------------------------
    async def _write(self, path: str, token: int) -> bool:
        """Write to the resource while the node is there; False when it is not."""
        value = encoded(self.client.new_value())

        def build(transaction: Any) -> None:
            transaction.check(path, 0)
            transaction.set_data(self._resource, value)

        try:
            reply = await self.client.attempt(lambda: self.multi(build))
        except DoorRefused as refused:
            expect(refused, NoNodeError)
            self._say("fence_refused", token, revision=refused.revision)
            return False
        if reply is not None:
            self._say("fence_accepted", token, revision=reply.value[1].mzxid)
        return True

    async def _leave(self, choice: float) -> None:
        """Delete the node, close the session, or leave it without a word; whatever ends the node is told as its end."""
        self._say("lease_released", self._token)
        path, token, zxid = self._path, self._token, 0
        self._forget()
        if choice < 0.94:
            reply = await self.refused(NoNodeError, lambda: self.session.ask(lambda zk: zk.delete_async(path)))
            zxid = reply.zxid if isinstance(reply, Reply) else 0
            if reply is None:
                await self._start_anew()  # the node may stand there as long as this session goes on
        elif choice < 0.97:
            zxid = await self.session.close()
            self.renew()
        else:
            await self.session.abandon()
            self.renew()
        if zxid:
            self._say("fence_ended", token, revision=zxid)

    async def _start_anew(self) -> None:
        await self.session.abandon()
        self.renew()


def _number(path: str) -> int:
    """Of a sequential node."""
    return int(path[-NUMBER_DIGITS:])
