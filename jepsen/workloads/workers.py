"""Workers of one group share resources, and each writes to its resources under the fence of its assignment.

Each resource is a subject of its own, as a lock is: its owner is granted it by an assignment, whose fence is the token.
The group is one more subject: who looks at it says which member leads which generation.
"""

from __future__ import annotations

import asyncio
from typing import Any

import raftmeta
from jepsen.client import TIMEOUT_S, UNSURE, Client
from jepsen.spool import NOT_TOLD
from jepsen.workloads.base import Grant, Workload, encoded
from raftmeta.assignors import OwnCodec
from raftmeta.coordinator import Assigned, Lost, Revoked, Settings
from raftmeta.operations import Fence

RETRY_S = 0.1
LOOK_SHARE = 0.1  # of the steps: at the group, and not at a resource
REJOIN_SHARE = 0.01  # ... a new plan is asked for
# A session that ends while a fault lasts, and a rebalance that does not wait long for those whom the fault struck.
SETTINGS = Settings(session_timeout_s=2.0, rebalance_timeout_s=4.0, heartbeat_interval_s=0.4)
CODEC = OwnCodec()
HAS_A_LEADER = ("Completing", "Stable")


class Workers(Workload):
    """Members of a worker group write to the resources that they were assigned, under the fence of the assignment."""

    name = "workers"
    model = None
    resources = tuple(f"r{number}" for number in range(12))
    settings = SETTINGS
    rejoin_share = REJOIN_SHARE
    is_fenced = True

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self.subject = f"{self.name}/{client.group}"
        self._group = f"{self.subject}/group"
        self._workers: Any = None
        self._owned: tuple[str, ...] = ()
        self._fence: Fence | None = None

    @classmethod
    def grants(cls) -> tuple[Grant, ...]:
        rights = ("read", "write", "watch", "lease")
        return ((rights, f"{cls.name}/"), (rights, f"groups/{cls.name}/"))

    async def step(self) -> None:
        choice = self.client.random.random()
        if choice < LOOK_SHARE or not self._owned:
            await self._look()
        elif choice < LOOK_SHARE + self.rejoin_share:
            self.rejoin()
        else:
            await self._write(self.client.random.choice(self._owned))

    def rejoin(self) -> None:
        """Ask for a new plan, if this client is a member."""
        if self._workers is not None:
            self._workers.request_rejoin("the workload asks")

    async def _look(self) -> None:
        """Which member leads which generation."""
        found = await self.client.attempt(lambda: self.client.store.groups.describe(self._group, timeout_s=TIMEOUT_S))
        if found is not None and found.state in HAS_A_LEADER and found.leader_id:
            self._say("elected", "", token=found.generation, value=found.leader_id)

    async def _write(self, resource: str) -> None:
        fence = self._fence
        assert fence is not None, "a resource without an assignment"

        async def act() -> int:
            key = f"{self.subject}/{resource}"
            value = encoded(self.client.new_value())
            given = fence if self.is_fenced else None
            return int(await self.client.store.put(key, value, fence=given, timeout_s=TIMEOUT_S))

        try:
            revision = await self.client.attempt(act)
        except raftmeta.Fenced as error:
            self._say("fence_refused", resource, token=fence.create_revision, revision=error.revision)
            return
        if revision is not None:
            self._say("fence_accepted", resource, token=fence.create_revision, revision=revision)

    async def follow(self) -> None:
        """Be a member, and a new one whenever the store could not be asked for too long."""
        while True:
            try:
                await self._be_member()
            except (*UNSURE, raftmeta.GroupRefused):
                await asyncio.sleep(RETRY_S)
            finally:
                self._owned = ()

    async def _be_member(self) -> None:
        members = raftmeta.workers(
            self._group, store=self.client.store, resources=self.resources, settings=self.settings
        )
        try:
            self._workers = members
            async for event in members:
                match event:
                    case Assigned(resources, _, _, fence):
                        for resource in resources:
                            token = fence.create_revision
                            self._say("lease_granted", resource, token=token, revision=token, value=members.member_id)
                        self._owned, self._fence = resources, fence
                    case Revoked(resources) | Lost(resources):
                        self._owned = tuple(one for one in self._owned if one not in resources)
        finally:
            self._workers = None
            await members.close()

    def _say(self, kind: str, resource: str, *, token: int, revision: int = NOT_TOLD, value: str = "") -> None:
        self.client.spool.observe(
            kind,
            f"{self.subject}/{resource or 'leader'}",
            process=self.client.process,
            revision=revision,
            token=token,
            value=value or self.client.name,
        )


class Churn(Workers):
    """The same for `python -m jepsen churn`: a group so large that each member has a few resources."""

    name = "churn"
    resources = tuple(f"r{number:03}" for number in range(200))
    # A node that is killed and started again must not cost a session; see jepsen/churn.py.
    settings = Settings(session_timeout_s=6.0, rebalance_timeout_s=20.0, heartbeat_interval_s=1.0)
    rejoin_share = 0.0  # every new generation has a reason that the run knows

    @staticmethod
    def owned(assignment: bytes) -> tuple[str, ...]:
        """The resources of a member, by the bytes of its assignment."""
        return tuple(CODEC.decode_assignment(assignment)[0]) if assignment else ()


# Mistakes that a run must find: members write without their fence; members ask for new plans for no reason.
LIES: dict[str, dict[str, Any]] = {"unfenced": {"is_fenced": False}, "restless": {"rejoin_share": 0.05}}


def planted(kind: type[Churn], lie: str) -> type[Churn]:
    """Such members that make this mistake (LIES)."""
    return type(f"{kind.__name__}_{lie}", (kind,), {"name": f"{kind.name}-{lie}", **LIES[lie]})
