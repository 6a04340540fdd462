"""Changes of the membership and of the lead, while everything else goes on.

A spare is a broker that is not a founder: it waits, with a blank folder, to be added. A nemesis of members goes to
another membership, and at its end back to the founders. Goals are asked for again until they are reached, of whoever
answers: that is what raftmeta's verbs promise to bear (docs/operations.md).
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any, ClassVar

from jepsen.db import WaitFailed
from jepsen.faults import damage
from jepsen.nemesis import Harm, Nemesis, Target
from tests.processes.remote import ProcessGone, RemoteError

CHANGE_S = 10.0  # for one change, under whatever other faults act
BACK_S = 90.0  # to the founders, when the other faults have ended too
LEAD_S = 3.0  # for everybody to know a leader
RETRY_S = 0.2
NOT_NOW = (RemoteError, ProcessGone, TimeoutError, WaitFailed)


class MemberChange(Nemesis):
    """observed: changes that were seen committed."""

    harm = Harm.MEMBERS
    targets: ClassVar[tuple[Target, ...]] = ("none",)
    lasts_s = (1.0, 4.0)
    _seen: dict[str, str] | Exception | None = None  # of the last look at the members

    def reach(self, verb: str, *, within_s: float = CHANGE_S, **arguments: Any) -> bool:
        """Ask until it is done; False when there was no time."""
        deadline_s = time.monotonic() + within_s
        while (left_s := deadline_s - time.monotonic()) > 0:
            try:
                self.cluster.ask(verb, timeout_s=left_s + 1.0, arguments={**arguments, "timeout_s": left_s})
            except NOT_NOW:
                time.sleep(RETRY_S)
            else:
                self.observed += 1
                return True
        return False

    def begin_blank(self, name: str) -> str:
        """Start a broker with a blank folder, that waits to be added; its address."""
        self.retire(name)
        self.cluster.start(name)
        return self._where(name)

    def _where(self, name: str) -> str:
        """The address that the others are told."""
        return self.cluster.reach(next(one for one in self.cluster.founders if one != name), name)

    def retire(self, name: str) -> None:
        """End a broker that is no member, with its folder."""
        self.cluster.nodes[name].kill()
        damage.wipe(self.cluster.nodes[name].folder)

    def end(self) -> None:
        """Back to the founders, whatever became of the change."""
        self.cluster.wait_for(self._is_back, self._missed, timeout_s=BACK_S)
        for name in self.cluster.spares:
            self.retire(name)

    def _missed(self) -> str:
        return f"{self.name}: the founders as voters; the last look at the members gave {self._seen!r}"

    def _is_back(self) -> bool:
        """Whether all founders vote, and nobody else; if not, one step is taken.

        No step where nobody answers: a founder that seems to be missing then is a member, and would be wiped.
        """
        members = self._members()
        strange = [name for name in members if name not in self.cluster.founders]
        missing = [name for name in self.cluster.founders if name not in members]
        standing_by = [name for name in self.cluster.founders if members.get(name) == "standby"]
        if not members:
            return False
        if strange and missing:
            self.reach("replace_member", old=strange[0], name=missing[0], address=self._address_of(missing[0]))
        elif strange and standing_by:  # a replacement that had no time for its second step
            self.reach("replace_member", old=strange[0], name=standing_by[0], address=self._where(standing_by[0]))
        elif missing:
            self.reach("add_member", name=missing[0], address=self._address_of(missing[0]))
        elif standing_by:
            self.reach("promote", name=standing_by[0])
        elif strange:
            self.reach("remove_member", name=strange[0])
        # If none of these: somebody is still learning, or who tells the members has not heard of the change yet.
        return not strange and not missing and set(members.values()) == {"voter"}

    def _members(self) -> dict[str, str]:
        """Roles by name; {} when nobody can tell."""
        try:
            found = self.cluster.ask("members", timeout_s=CHANGE_S, arguments={"timeout_s": CHANGE_S - 1})
        except NOT_NOW as error:
            self._seen = error
            return {}
        self._seen = {member["name"]: member["role"] for member in found if member["role"]}
        return self._seen

    def _address_of(self, name: str) -> str:
        """Of a founder that is to be a member again: as a blank broker, unless it waits already."""
        node = self.cluster.nodes[name]
        if node.is_answering and node.report["state"] == "joining":
            return self._where(name)
        return self.begin_blank(name)


class Grow(MemberChange):
    """Two more voters, then as before."""

    name = "grow"

    def begin(self, nodes: tuple[str, ...]) -> str:
        added = [
            name for name in self.cluster.spares if self.reach("add_member", name=name, address=self.begin_blank(name))
        ]
        return f"added {' '.join(added)}"


class Shrink(MemberChange):
    """One voter less, then it is added again with a blank folder."""

    name = "shrink"
    targets = ("one", "primaries")

    def begin(self, nodes: tuple[str, ...]) -> str:
        removed = [name for name in nodes[:1] if self.reach("remove_member", name=name)]
        return f"removed {' '.join(removed)}"


class Replace(MemberChange):
    """A spare takes the place of a voter, and later the other way round."""

    name = "replace"
    targets = ("one", "primaries")

    def begin(self, nodes: tuple[str, ...]) -> str:
        old, name = nodes[0], self.cluster.spares[0]
        is_done = self.reach("replace_member", old=old, name=name, address=self.begin_blank(name))
        return f"{name} for {old}{'' if is_done else ', not within its time'}"


class Transfer(Nemesis):
    """The lead goes from hand to hand. observed: leaders that it went to."""

    name = "transfer"
    targets = ("all",)
    lasts_s = (0.0, 0.0)
    HANDS = 3

    def begin(self, nodes: tuple[str, ...]) -> str:
        went = []
        for name in self.random.choices(nodes, k=self.HANDS):
            try:
                if self.cluster.leader() != name:
                    self.cluster.ask("transfer", timeout_s=CHANGE_S, arguments={"to": name, "timeout_s": CHANGE_S / 2})
                    self.cluster.wait_for(partial(self.cluster.leads, name), f"{name} to lead", timeout_s=LEAD_S)
                    went.append(name)
            except NOT_NOW:
                continue  # it was cut off, or died: another one's turn
        self.observed += len(went)
        return f"to {' '.join(went)}"

    def end(self) -> None:
        """Nothing to heal."""


NEMESES = (Grow, Shrink, Replace, Transfer)
