"""All histories of a small world from Python: bounds in, the first violation or the proof that there is none out."""

INVARIANTS: dict[int, str]
MARKS: tuple[str, ...]

class Exhaustive:
    """A small world of production cores and the search through all its states (raftmeta/sim/small/exhaustive.pxd).

    founding: one letter per node, 1 to 5: v a voter, l a learner, - no member yet. target: the same after the
    change of membership; a second change leads back. time_outs: 0 to 6, of all nodes together; they bound the terms.
    proposals, heartbeats, crashes: 0 to 3, changes: 0 to 2, each in all. logs: what is on each disk at the beginning, as the terms of its entries:
    ("1", "2", "") after two leaders that reached nobody. has_pre_votes: members answer pre-votes; else they grant them
    at once. has_heartbeats: heartbeats arrive; else all are lost.
    has_slow_disks: a node meets other things while it writes; else its write ends, or it dies, before anything else happens.
    is_plain: without the reductions, to compare.
    Messages are never bounded: each may arrive at any time, often, or never.
    Raises ValueError: a bound, a role or a log out of range.
    """

    def __init__(
        self,
        founding: str = "vvv",
        *,
        target: str = "",
        time_outs: int = 2,
        proposals: int = 1,
        heartbeats: int = 0,
        crashes: int = 1,
        changes: int = 0,
        logs: tuple[str, ...] = (),
        has_pre_votes: bool = False,
        has_heartbeats: bool = False,
        has_slow_disks: bool = True,
        is_plain: bool = False,
    ) -> None: ...
    def run(self, states: int) -> int:
        """Take up to `states` more states without the GIL; return how many. 0: none is left, or one is a violation."""

    @property
    def violation(self) -> str | None:
        """The first invariant that did not hold; None: all held in what was taken. b: the Invariant of
        raft/invariants.pxd by which a node stopped itself."""

    def path(self) -> list[str]:
        """A short history that leads to the violation, one action a line; empty when there is none."""

    @property
    def counts(self) -> dict[str, int]:
        """How far the search is: states found and taken, those that others cover, transitions, depth (actions from the
        beginning), and parts."""

    @property
    def marks(self) -> dict[str, int]:
        """Decisions of members on the way: distinct steps of a node in which it happened, by the name of the trace."""
