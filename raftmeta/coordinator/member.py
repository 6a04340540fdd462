"""The face of a member that its program sees, whatever drives it: generation, state, fence."""

from __future__ import annotations

from raftmeta.coordinator.machine import MemberMachine, MemberState
from raftmeta.coordinator.service import Generation
from raftmeta.errors import Fenced
from raftmeta.operations import Fence

__all__ = ["MemberFace"]


class MemberFace:
    """Everything that asks nobody."""

    _machine: MemberMachine

    @property
    def generation(self) -> Generation:
        """The last one that was joined; its number is -1 before the first, and after the member was lost."""
        return self._machine.generation

    @property
    def generation_if_stable(self) -> Generation | None:
        return self._machine.generation_if_stable

    @property
    def member_id(self) -> str:
        """Empty: the member is in no group."""
        return self._machine.generation.member_id

    @property
    def state(self) -> MemberState:
        return self._machine.state

    @property
    def fence(self) -> Fence:
        """Of the newest assignment: a write with it is refused as Fenced once others may own the work.

        Raises Fenced: the member has no assignment now, or the service has no fences. So no write goes without one.
        """
        fence = self._machine.fence
        if fence is None:
            raise Fenced("this member has no assignment, and so no fence: nothing was sent")
        return fence
