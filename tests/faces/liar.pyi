"""Facts and lies about a small world, for tests of its search and of its checks."""

from raftmeta.sim.small.exhaustive_handle import Exhaustive

def node_facts(world: Exhaustive) -> set[tuple[tuple[object, ...], ...]]:
    """The nodes of each state that was met: role, terms, commit index, log and disk of each; nodes that
    began alike in any order. Equal for two searches that reached the same."""

class SmallLiar:
    """Bends one fact of one state of a small world; take() lets everything happen in that state, and Exhaustive.violation
    then names the invariant.

    The state is the first that was met in which a node is in this role (1 follower, 2 pre-candidate, 3 candidate, 4
    leader), in this term, with so many entries in its log and so many committed. Raises ValueError: there is none.
    The world is of no use afterwards.
    """

    def __init__(
        self,
        world: Exhaustive,
        role: int,
        *,
        term: int = 1,
        committed: int = 0,
        length: int = 0,
        is_writing: bool = False,
    ) -> None: ...
    def take(self) -> None:
        """Everything that can happen in the state, until an invariant falls."""

    def say_led_by_another(self) -> None:
        """As if another node had led the term of this one."""

    def change_log(self) -> None:
        """As if the node's first entry had the same term and another past."""

    def commit_another(self) -> None:
        """As if another first entry than the node's had been committed, in term 0."""

    def forget_disks(self) -> None:
        """As if no disk held anything, and nothing had been committed."""

    def call_all_memberships(self) -> None:
        """As if every entry changed the membership."""

    def lose_records(self) -> None:
        """The node's disk loses its entries."""

    def lose_term(self) -> None:
        """The node's disk loses its term."""

    def lose_vote(self) -> None:
        """The node's disk loses its vote."""

    def vote_for_another(self) -> None:
        """The node's disk holds a vote of its term for another node."""

    def part_electorates(self) -> None:
        """A membership is in force at the node in which one voter of the one before decides alone."""

    def step_back(self) -> None:
        """As if one entry more had been committed at the node before."""

    def stop(self) -> None:
        """The node believes that it must remove a committed entry, and stops itself."""
