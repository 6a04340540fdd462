"""Registers, transactions, a lock and watches through the etcd door, by etcd's own requests."""

from __future__ import annotations

import asyncio
import base64
import json
from abc import abstractmethod
from contextlib import aclosing
from typing import Any

from jepsen.client import UNSURE, Answer, Client, Doors
from jepsen.clock import NS_PER_S, now_ns
from jepsen.etcd_session import LEASE_EXISTS, NO_LEASE, EtcdRefused, EtcdSession, b64, revision_of
from jepsen.spool import NOT_TOLD
from jepsen.workloads.base import Grant, Workload, decoded, encoded

MOVE_SHARE = 0.02  # of steps: the client goes on with another door
TTL_S = 2  # the door's least
KEYS = 3
STEPS_MAX = 4
LEASE_MAX = (1 << 63) - 1
BACK_MAX = 100  # revisions in the past at which a new watch may begin
RETRY_S = 0.1


class EtcdWorkload(Workload):
    """Its clients stand outside of the brokers, and ask no other way."""

    protocol = "etcd"

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        assert client.doors is not None, "a workload through the door needs doors"
        self.doors: Doors = client.doors
        self.session = EtcdSession(self.doors, first=client.slot)

    async def step(self) -> None:
        if self.client.random.random() < MOVE_SHARE:
            self.session.move()
        await self.act()

    @abstractmethod
    async def act(self) -> None:
        """Ask once, by self.session."""

    async def close(self) -> None:
        await self.session.close()

    async def put(self, key: str, value: Any) -> int:
        return revision_of(await self.session.ask("kv/put", key=b64(key), value=b64(encoded(value))))


class EtcdRegister(EtcdWorkload):
    """Read, put, and a transaction that compares the value, which is a compare-and-set."""

    name = "etcd-register"
    model = "cas-register"

    async def act(self) -> None:
        key = f"{self.client.prefix()}{self.client.random.randrange(2)}"
        await self.one_of(key, (0.4, self._read), (0.75, self._write), (1.0, self._cas))

    async def _read(self, key: str) -> Any:
        async def act() -> Answer:
            found = (await self.session.ask("kv/range", key=b64(key))).get("kvs", [])
            return Answer(_value_of(found[0]), int(found[0]["mod_revision"])) if found else Answer(None, 0)

        answer = await self.client.ask("read", key, None, act)
        return None if answer is None else answer.result

    async def _write(self, key: str) -> None:
        value = self.client.new_value()

        async def act() -> Answer:
            return Answer(None, await self.put(key, value))

        await self.client.ask("write", key, value, act)

    async def _cas(self, key: str) -> None:
        """From a value that was just read."""
        old, new = await self._read(key), self.client.new_value()
        if old is None:
            return

        async def act() -> Answer:
            answer = await self.session.ask("kv/txn", compare=[_compare(key, old)], success=[_operation("w", key, new)])
            return Answer(bool(answer.get("succeeded")), revision_of(answer))

        await self.client.ask("cas", key, [old, new], act)


class EtcdTransactions(EtcdWorkload):
    """Reads and writes of three keys in one Txn, some of them only if a key has the value it was seen with.

    etcd takes no two writes of a key in one Txn.
    """

    name = "etcd-txn"
    model = "kv"

    async def act(self) -> None:
        random = self.client.random
        keys = [f"{self.client.prefix()}{number}" for number in range(KEYS)]
        steps: list[list[Any]] = []
        for key in random.choices(keys, k=random.randint(1, STEPS_MAX)):
            is_written = any(word == "w" and one == key for word, one, _ in steps)
            is_read = is_written or random.random() < 0.5
            steps.append(["r", key, None] if is_read else ["w", key, self.client.new_value()])
        if random.random() < 0.3:
            seen = await self._execute([["r", key, None] for key in keys])
            if seen is not None:
                _, key, value = random.choice(seen)
                steps = [["if", key, value], *steps, ["else"], ["r", key, None]]
        await self._execute(steps)

    async def _execute(self, steps: list[list[Any]]) -> list[Any] | None:
        """One Txn, as Jepsen writes it; the same list with what was read."""
        compares = [_compare(key, value) for word, *rest in steps if word == "if" for key, value in [rest]]
        begin, middle = len(compares), next((n for n, step in enumerate(steps) if step == ["else"]), len(steps))
        then, otherwise = steps[begin:middle], steps[middle + 1 :]

        async def act() -> Answer:
            answer = await self.session.ask(
                "kv/txn",
                compare=compares,
                success=[_operation(*step) for step in then],
                failure=[_operation(*step) for step in otherwise],
            )
            is_then = bool(answer.get("succeeded"))
            branch = then if is_then else otherwise
            told = [_told(step, one) for step, one in zip(branch, answer.get("responses", []), strict=True)]
            return Answer([["if", is_then], *told] if compares else told, revision_of(answer))

        answer = await self.client.ask("txn", None, steps, act)
        return None if answer is None else answer.result


class EtcdLock(EtcdWorkload):
    """A key with a lease is a lock: who makes it writes to a resource by Txns that compare its create revision.

    It goes by the end of its lease, by the lease being revoked, and by being deleted under a lease that goes on. Writes
    of a former holder must be refused.
    """

    name = "etcd-lock"
    model = None

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._subject = f"{self.name}/{client.group}"
        self._key = f"{self._subject}/lock"
        self._lease = 0
        self._token = 0
        self._until_ns = 0
        self._old = 0

    @classmethod
    def grants(cls) -> tuple[Grant, ...]:
        """A right to leases of etcd holds for all leases, and has no keys."""
        return (*super().grants(), (("lease",), ""))

    async def act(self) -> None:
        choice = self.client.random.random()
        if self._old and choice < 0.3:
            if not await self._write(self._old):
                self._old = 0
        elif not self._lease:
            await self._grant()
        elif not self._token:
            await self._acquire()
        elif choice < 0.5:
            await self._keep_alive()
        elif choice < 0.9:
            before_ns = now_ns()
            if before_ns < self._until_ns:
                self._say("held", self._token, time_ns=before_ns)
            if not await self._write(self._token):
                self._say("lease_lost", self._token)
                await self._revoke()
        elif choice < 0.95:
            await self._revoke()
        else:
            await self._delete()

    def _say(self, kind: str, token: int, *, revision: int = NOT_TOLD, time_ns: int | None = None) -> None:
        self.client.spool.observe(
            kind,
            self._subject,
            process=self.client.process,
            token=token,
            revision=revision,
            value=self.client.name,
            time_ns=time_ns,
        )

    async def _grant(self) -> None:
        """With an id of its own, so that nobody has to know whether the first request arrived."""
        lease, before_ns = self.client.random.randint(1, LEASE_MAX), now_ns()
        try:
            answer = await self.client.attempt(lambda: self.session.ask("lease/grant", ID=str(lease), TTL=TTL_S))
        except EtcdRefused as refused:
            assert refused.text == LEASE_EXISTS, refused.text
            return
        if answer is not None:
            self._lease, self._until_ns = lease, before_ns + TTL_S * NS_PER_S

    async def _keep_alive(self) -> None:
        before_ns = now_ns()
        answer = await self.client.attempt(lambda: self.session.ask("lease/keepalive", ID=str(self._lease)))
        if answer is None:
            return
        if int(answer["result"].get("TTL", 0)) > 0:
            self._until_ns = before_ns + TTL_S * NS_PER_S
        else:
            self._say("lease_lost", self._token)
            self._forget()

    async def _acquire(self) -> None:
        free = {"key": b64(self._key), "target": "CREATE", "result": "EQUAL", "create_revision": "0"}
        put = {"key": b64(self._key), "value": b64(self.client.name), "lease": str(self._lease)}
        try:
            answer = await self.client.attempt(
                lambda: self.session.ask("kv/txn", compare=[free], success=[{"request_put": put}])
            )
        except EtcdRefused as refused:
            assert refused.text == NO_LEASE, refused.text
            answer = None
        if answer is None:
            await self._revoke()  # the key may stand there under a lease that nobody else would end
        elif answer.get("succeeded"):
            self._token = revision_of(answer)
            self._say("lease_granted", self._token, revision=self._token)

    async def _write(self, token: int) -> bool:
        """Write to the resource under the lock; False when the lock is another one."""
        held = {"key": b64(self._key), "target": "CREATE", "result": "EQUAL", "create_revision": str(token)}
        put = {"key": b64(f"{self._subject}/resource"), "value": b64(encoded(self.client.new_value()))}
        answer = await self.client.attempt(
            lambda: self.session.ask("kv/txn", compare=[held], success=[{"request_put": put}])
        )
        if answer is None:
            return True
        is_accepted = bool(answer.get("succeeded"))
        self._say("fence_accepted" if is_accepted else "fence_refused", token, revision=revision_of(answer))
        return is_accepted

    async def _revoke(self) -> None:
        lease, token = self._lease, self._token
        self._forget()
        if token:
            self._say("lease_released", token)
        try:
            answer = await self.client.attempt(lambda: self.session.ask("lease/revoke", ID=str(lease)))
        except EtcdRefused as refused:
            assert refused.text == NO_LEASE, refused.text
            return
        if answer is not None and token:
            self._say("fence_ended", token, revision=revision_of(answer))

    async def _delete(self) -> None:
        """The lock goes, and its lease goes on."""
        token = self._token
        self._say("lease_released", token)
        self._old, self._token = token, 0
        mine = {"key": b64(self._key), "target": "CREATE", "result": "EQUAL", "create_revision": str(token)}
        delete = {"request_delete_range": {"key": b64(self._key)}}
        answer = await self.client.attempt(lambda: self.session.ask("kv/txn", compare=[mine], success=[delete]))
        if answer is not None and answer.get("succeeded"):
            self._say("fence_ended", token, revision=revision_of(answer))
        elif answer is None:
            await self._revoke()

    def _forget(self) -> None:
        self._old = self._token or self._old
        self._lease, self._token, self._until_ns = 0, 0, 0


class EtcdWatch(EtcdWorkload):
    """Puts and deletes on keys that all clients of the group watch, from a revision in the past.

    A watch goes on by revision over every break of its connection, and has one process number all the time: until the
    history does not reach back any more. watch_progress stands behind each answer that tells that all up to its
    revision was told.
    """

    name = "etcd-watch"
    model = "kv"

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._prefix = f"{self.name}/{client.group}/"
        self._watching = EtcdSession(self.doors, first=client.slot)
        self._process = 0
        self._next = 0

    @classmethod
    def grants(cls) -> tuple[Grant, ...]:
        return ((("read", "write", "watch"), f"{cls.name}/"),)

    async def act(self) -> None:
        key = f"{self.client.prefix()}{self.client.random.randrange(KEYS)}"
        await self.one_of(key, (0.65, self._put), (0.8, self._delete), (1.0, self._get))

    async def _put(self, key: str) -> None:
        value = self.client.new_value()

        async def act() -> Answer:
            return Answer(None, await self.put(key, value))

        await self.client.ask("write", key, value, act)

    async def _delete(self, key: str) -> None:
        async def act() -> Answer:
            return Answer(None, revision_of(await self.session.ask("kv/deleterange", key=b64(key))))

        await self.client.ask("delete", key, None, act)

    async def _get(self, key: str) -> None:
        async def act() -> Answer:
            found = (await self.session.ask("kv/range", key=b64(key))).get("kvs", [])
            return Answer(_value_of(found[0]) if found else None)

        await self.client.ask("read", key, None, act)

    async def close(self) -> None:
        await super().close()
        await self._watching.close()

    # --- the watch ----------------------------------------------------------------------------------------------------
    async def follow(self) -> None:
        while True:
            try:
                if not self._next:
                    await self._begin()
                await self._stream()
            except UNSURE:
                pass
            await asyncio.sleep(RETRY_S)

    async def _begin(self) -> None:
        """Somewhere in the last hundred revisions. Raises what UNSURE names."""
        newest = revision_of(await self._watching.ask("kv/range", key=b64(self._prefix)))
        self._open(max(newest - self.client.random.randrange(BACK_MAX), 1) + 1)

    def _open(self, first: int) -> None:
        self._process, self._next = self.client.new_value(), first
        self._tell("watch_open", first - 1)

    async def _stream(self) -> None:
        end = f"{self._prefix[:-1]}0"  # the byte behind a slash
        async with aclosing(self._watching.watch(self._prefix, end, self._next)) as stream:
            async for told in stream:
                for event in told.get("events", ()):
                    self._event(event)
                if compacted := int(told.get("compact_revision", 0)):
                    self._open(compacted)
                    return
                if told.get("canceled"):
                    return
                # A member that lags tells its own revision, as etcd's does: nothing new to one that comes from another.
                if not told.get("created") and (told.get("events") or revision_of(told) >= self._next):
                    self._tell("watch_progress", revision_of(told))
                    self._next = revision_of(told) + 1

    def _event(self, event: dict[str, Any]) -> None:
        kv = event["kv"]
        is_delete = event.get("type") == "DELETE"
        change = ["delete" if is_delete else "put", base64.b64decode(kv["key"]).decode()]
        self._tell("watch_event", int(kv["mod_revision"]), [*change, None if is_delete else _value_of(kv)])

    def _tell(self, kind: str, revision: int, value: object = None) -> None:
        text = "" if value is None else json.dumps(value, separators=(",", ":"))
        self.client.spool.observe(kind, self._prefix, process=self._process, revision=revision, value=text)


def _value_of(kv: dict[str, Any]) -> Any:
    return decoded(base64.b64decode(kv["value"]))


def _compare(key: str, value: Any) -> dict[str, Any]:
    if value is None:
        return {"key": b64(key), "target": "VERSION", "result": "EQUAL", "version": "0"}
    return {"key": b64(key), "target": "VALUE", "result": "EQUAL", "value": b64(encoded(value))}


def _operation(word: str, key: str, value: Any) -> dict[str, Any]:
    if word == "r":
        return {"request_range": {"key": b64(key)}}
    return {"request_put": {"key": b64(key), "value": b64(encoded(value))}}


def _told(step: list[Any], response: dict[str, Any]) -> list[Any]:
    """A step with what it read."""
    word, key, value = step
    if word == "w":
        return [word, key, value]
    found = response["response_range"].get("kvs", [])
    return [word, key, _value_of(found[0]) if found else None]
