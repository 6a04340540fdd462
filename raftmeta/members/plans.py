"""How a membership becomes the one that somebody asked for: the next step, from what this node sees now.

    add_member(d)           nobody of that name -> learner (or standby); the leader promotes it (raft/membership_change)
    remove_member(d)        gone; a leader hands over first
    replace_member(c, d)    d a standby -> caught up -> one change in which d gets the vote that c loses
    promote(d), demote(d)   a vote, no vote (and no promotion by the leader either)

A plan states a goal and looks at what is: so it may be asked for again after any failure, by anybody, and goes on where
it was. Only a removal that is asked for again once it is done is refused, with the names of the members: a mistyped
name looks the same. It never waits, never sends (face/members and client/members do both, each for its
callers), and decides nothing that would be unsafe if wrong: every step names the membership that it was made from, and
the leader refuses one that is not in force any more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from raftmeta.config import Address, check_name
from raftmeta.errors import (
    ChangeRefused,
    ConfigError,
    InvalidArgument,
    NoLeader,
    OutcomeUnknown,
    RaftmetaError,
    Withdrawn,
)
from raftmeta.members.rows import LEARNER, STANDBY, VOTER, MemberRow


@dataclass(frozen=True, slots=True)
class View:
    """The members as a node sees them. index: of the membership in force; is_settled: committed, no change under way.

    connected: name and incarnation of the peers that this node has a connection to. revision: of its state, for
    errors: what is refused is refused as of that.
    """

    name: str
    index: int
    is_settled: bool
    is_removed: bool
    leader: str
    members: tuple[MemberRow, ...]
    connected: dict[str, int]
    revision: int = 0

    def named(self, name: str) -> MemberRow | None:
        """The member of that name; of two incarnations the one that votes."""
        found = sorted((one for one in self.members if one.name == name), key=lambda one: one.role != VOTER)
        return found[0] if found else None

    def voters(self) -> list[MemberRow]:
        return [one for one in self.members if one.role == VOTER]


# --- steps ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Propose:
    """Ask the leader for exactly these members."""

    members: tuple[MemberRow, ...]
    reason: str  # why it may not have happened yet, in the words of an error


@dataclass(frozen=True, slots=True)
class Meet:
    """Connect to a node that is no member, to learn its incarnation."""

    name: str
    address: str
    reason: str


@dataclass(frozen=True, slots=True)
class HandOver:
    """Let another voter lead: who goes does not lead its own going."""

    reason: str


Step = Propose | Meet | HandOver | None  # None: it is done
Plan = Callable[[View], Step]


def add(name: str, address: str, *, is_voter: bool) -> Plan:
    role = LEARNER if is_voter else STANDBY

    def plan(view: View) -> Step:
        member = view.named(name)
        if member is None:
            return _invite(view, name, address, role)
        if member.address != address:
            raise ChangeRefused(
                f"{name} is a member at {member.address} already; restart it with advertise={address!r}, or remove it"
            )
        if member.role == VOTER or member.role == role:
            return None
        return _with_role(view, member, role)

    return plan


def remove(name: str) -> Plan:
    has_seen = False  # that it was a member: else nobody was removed by this call, and the name may be mistyped

    def plan(view: View) -> Step:
        nonlocal has_seen
        if view.is_removed and view.name == name:
            return None
        if view.named(name) is None:
            if has_seen:
                return None
            raise ChangeRefused(f"{name} is no member, or not any more; there are {_names(view.members)}")
        has_seen = True
        rest = tuple(one for one in view.members if one.name != name)
        return _hand_over_first(view, name, rest) or _propose(view, rest)

    return plan


def set_vote(name: str, *, is_voter: bool) -> Plan:
    def plan(view: View) -> Step:
        member = view.named(name)
        if member is None:
            raise ChangeRefused(f"{name} is no member; there are {_names(view.members)}")
        if member.role == (VOTER if is_voter else STANDBY):
            return None
        if is_voter:
            return _with_role(view, member, VOTER)
        proposal = _without_vote(view, member)
        return _hand_over_first(view, name, proposal.members) or proposal

    return plan


def swap(old: str, new: str, address: str) -> Plan:
    def plan(view: View) -> Step:
        leaving, coming = view.named(old), view.named(new)
        if leaving is None and coming is None:
            raise ChangeRefused(f"{old} is no member; there are {_names(view.members)}")
        if leaving is None:
            return None
        if coming is None:
            return _invite(view, new, address, STANDBY)
        if coming.address != address:
            raise ChangeRefused(f"{new} is a member at {coming.address} already")
        rest = tuple(
            replace(one, role=leaving.role) if one is coming and coming.role != VOTER else one
            for one in view.members
            if one.name != old
        )
        return _hand_over_first(view, old, rest) or _propose(view, rest, f"{new} has not caught up yet")

    return plan


def _invite(view: View, name: str, address: str, role: str) -> Step:
    if name not in view.connected:
        return Meet(name, address, f"{name} does not answer at {address}: start it with the members among its peers")
    return _propose(view, (*view.members, MemberRow(name, view.connected[name], address, role)))


def _with_role(view: View, member: MemberRow, role: str) -> Propose:
    members = tuple(replace(one, role=role) if one == member else one for one in view.members)
    return _propose(view, members, f"{member.name} has not caught up yet")


def _without_vote(view: View, voter: MemberRow) -> Propose:
    """Of a name one member without a vote is left: a new incarnation that waits for the vote, not the old one."""
    heir = next((one for one in view.members if one.name == voter.name and one != voter), None)
    if heir is None:
        return _with_role(view, voter, STANDBY)
    rest = tuple(replace(one, role=STANDBY) if one == heir else one for one in view.members if one != voter)
    return _propose(view, rest)


def _hand_over_first(view: View, name: str, rest: tuple[MemberRow, ...]) -> HandOver | None:
    """A member that loses its vote must not be needed: neither as the last voter nor as the leader."""
    if not any(one.role == VOTER for one in rest):
        raise ChangeRefused(f"{name} is the only voter: add and promote another member first")
    return HandOver(f"{name} leads, and no other voter takes over") if view.leader == name else None


def _propose(view: View, members: tuple[MemberRow, ...], reason: str = "") -> Propose:
    silent = [one for one in members if one.role == VOTER and one.name not in view.connected and one.name != view.name]
    if 2 * (sum(one.role == VOTER for one in members) - len(silent)) <= sum(one.role == VOTER for one in members):
        reason = f"would leave no quorum: {_names(silent)} {'does' if len(silent) == 1 else 'do'} not answer"
    return Propose(members, reason)


def _names(members: tuple[MemberRow, ...] | list[MemberRow]) -> str:
    names = [one.name for one in members]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


# --- a plan on its way ------------------------------------------------------------------------------------------------


class Change:
    """One call: what it may do next, what became of its last step, and with which error it ends in time.

    what: the call in words, for errors.
    """

    def __init__(self, what: str, plan: Plan) -> None:
        self._what = what
        self._plan = plan
        self._reason = "no leader is known"
        self._is_refused = False
        self._revision = 0
        self._proposed_from: int | None = None  # index of the membership, while the outcome is not known

    @property
    def what(self) -> str:
        return self._what

    def next_step(self, view: View) -> Step | bool:
        """A step to take now; False: nothing but wait; None: the goal is reached and committed."""
        self._revision = view.revision
        try:
            return self._next_step(view)
        except ChangeRefused as error:
            error.revision = view.revision
            raise

    def _next_step(self, view: View) -> Step | bool:
        if view.is_removed:
            if self._plan(view) is None:
                return None
            raise Withdrawn(f"{self._what}: this node, {view.name}, was removed from the cluster; ask a member")
        if not view.is_settled:
            self._reason = "another change is under way, or no quorum answers"
            return False
        if view.index != self._proposed_from:
            self._proposed_from = None  # whatever was proposed from there can be appended no more
        step = self._plan(view)
        if step is None:
            return None
        self._reason = step.reason or "no quorum answers"
        if not view.leader:
            self._reason = "no leader is known"
            self._is_refused = False  # what was refused before is not why it is not done now
            return False
        return step

    def begins(self, step: Step, view: View) -> None:
        """The step is about to be submitted: from now on a proposal may be in the log."""
        self._is_refused = False
        if isinstance(step, Propose):
            self._proposed_from = view.index

    def failed(self, error: RaftmetaError) -> None:
        """The step ended with this error; of a proposal it says that the leader certainly did not append it, unless
        it is OutcomeUnknown, or Withdrawn: only the caller's waiting was, not the proposal."""
        if isinstance(error, OutcomeUnknown | Withdrawn):
            return
        self._proposed_from = None
        self._is_refused = isinstance(error, ChangeRefused | InvalidArgument)
        if isinstance(error, ChangeRefused) and "would leave no quorum" not in self._reason:
            self._reason = "would leave no quorum: too few of its voters answer the leader"
        elif isinstance(error, InvalidArgument):
            self._reason = "an old incarnation of that name still answers"
        elif isinstance(error, NoLeader):
            self._reason = "no leader is known"

    def timed_out(self) -> RaftmetaError:
        """The error that tells the fate of a call whose time is over."""
        if self._proposed_from is not None:
            return OutcomeUnknown(
                f"{self._what}: proposed, and not seen committed in time; members() tells, and asking again is safe"
            )
        if self._is_refused:
            return ChangeRefused(f"{self._what}: {self._reason}", revision=self._revision)
        return Withdrawn(f"{self._what}: {self._reason}; nothing was changed by the last step")


# --- the calls, with their arguments checked --------------------------------------------------------------------------


def adding(name: str, address: str, *, is_voter: bool) -> Change:
    """add_member. Raises InvalidArgument, as do those below."""
    return Change(f"add_member({name!r})", add(_name(name, "name"), _address(address), is_voter=is_voter))


def removing(name: str) -> Change:
    return Change(f"remove_member({name!r})", remove(_name(name, "name")))


def replacing(old: str, name: str, address: str) -> Change:
    if old == name:
        raise InvalidArgument("name: a member that lost its disk comes back by itself under its name", field="name")
    return Change(f"replace_member({old!r}, {name!r})", swap(_name(old, "old"), _name(name, "name"), _address(address)))


def voting(name: str, *, is_voter: bool) -> Change:
    """promote and demote."""
    return Change(f"{'promote' if is_voter else 'demote'}({name!r})", set_vote(_name(name, "name"), is_voter=is_voter))


def _name(name: str, field: str) -> str:
    try:
        return check_name(name, field)
    except ConfigError as error:
        raise InvalidArgument(str(error), field=field) from None


def _address(address: str) -> str:
    try:
        return str(Address.parse(address, "address"))
    except ConfigError as error:
        raise InvalidArgument(str(error), field="address") from None
