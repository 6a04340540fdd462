"""Lies about a living world, for tests of the checks."""

from raftmeta.sim.world.world_handle import World

class Liar:
    """Bends one fact of a world, so that a true statement of the engine and the world's truth contradict each other.

    number: a node that is up (ValueError otherwise). Afterwards World.violation names the invariant, at once or when the
    engine makes its next statement.
    """

    def __init__(self, world: World) -> None: ...
    def acknowledge(self, number: int, index: int) -> None:
        """The node says that its disk has everything up to index."""

    def campaign(self, number: int, term: int) -> None:
        """The node asks for votes in a term."""

    def grant_vote(self, number: int, target: int) -> None:
        """The node votes for another in its present term."""

    def lead(self, number: int, term: int) -> None:
        """The node says that it leads in a term."""

    def look(self, number: int) -> None:
        """Check the node as after each of its turns."""

    def recover(self, number: int) -> None:
        """Check the node as after its return."""

    def change_committed_entry(self, index: int) -> None:
        """As if another entry of another term had been committed at index."""

    def change_chain(self, index: int) -> None:
        """As if another entry of the same term had been committed at index."""

    def change_state_hash(self, index: int) -> None:
        """As if the state after index had been another one."""

    def change_known(self, number: int, index: int) -> None:
        """The node knew another entry as committed at index."""

    def forget_committed(self, number: int, count: int) -> None:
        """As if neither this node nor the world had seen the last `count` commits yet."""

    def forget_disks(self) -> None:
        """As if nothing were known to be durable anywhere."""

    def damage(self, number: int, index: int) -> None:
        """As if the node had come back with a record at index that it cannot read."""

    def forget_applied(self, number: int) -> None:
        """As if the node's state had not been looked at yet."""

    def raise_committed(self, number: int) -> None:
        """As if the node had known one commit more before."""

    def vouch(self, number: int, index: int) -> None:
        """As if the node had acknowledged up to index."""

    def open_change(self, number: int, drops: int) -> None:
        """As if a membership without the first `drops` members came next, in one step. The world must not go on."""

    def owe_reads(self, entries: int) -> None:
        """As if entries that no node has were acknowledged."""

    def count_adds(self, number: int) -> None:
        """As if every counter had already answered with this number, once."""

    def skip_event(self) -> None:
        """As if each watch had to show one revision more than it did."""

    def shift_point(self, number: int) -> None:
        """As if the node had counted its last point one entry too early."""

    def owe_room(self) -> None:
        """As if leaders had to hand over with more room left than they know of."""

    def extend_leases(self, more_ms: int) -> None:
        """As if every lease had been shown with a later deadline."""

    def believe_leases(self, more_ns: int) -> None:
        """As if the keepers had been told a later end."""

    def move_leases(self) -> None:
        """As if the next process of each keeper had been granted its lease."""

    def end_process(self, number: int) -> None:
        """As if an entry that ends the node's process were committed now."""

    def end_session(self, number: int) -> None:
        """As if the last entry that the node has applied had ended the process of its session."""

    def cut_off(self, number: int) -> None:
        """Nothing reaches or leaves this node until the world heals."""

    def fail_next_sync(self, number: int) -> None:
        """The disk of this node refuses its next sync, once."""

    def stop(self, number: int) -> None:
        """As if the node had found one of its own beliefs broken."""

    def forget_answer(self, number: int) -> None:
        """As if one call more of this node's clients waited, for ever."""

    def forget_counts(self) -> None:
        """As if every client of another process had been answered two counts less."""

    def raise_token(self) -> None:
        """As if a guarded write had been accepted under the newest token of all."""

    def answer(self, index: int) -> None:
        """As if a client had been told that the entry at index is done."""

    def see(self, key: int, value: int) -> None:
        """As if a client had called in this event and been told this value of the register; 0: that there is none."""

    def count_again(self, key: int) -> None:
        """As if a counter had answered its highest number once more, to somebody who knew it."""

    def change_copies(self) -> None:
        """As if the copies of the user machine had been in other states after each command so far."""

    def move_user_commands(self) -> None:
        """As if each command of the user machine had run, or been answered, one index later."""

    def blame_frames(self) -> None:
        """As if every frame under way were not what was sent."""

    def forget_memberships(self) -> None:
        """As if no membership had been committed but the founding one."""

    def change_memberships(self) -> None:
        """As if each committed membership had other bytes than those that the nodes work under."""

    def ask_later(self, more_ns: int) -> None:
        """As if every call that is open, and every question to a leader, had been asked so much later."""

    def age_rounds(self, number: int, ns: int) -> None:
        """As if all rounds of this node had been sent so much earlier."""

    def shown_next(self, number: int, watch: int) -> int:
        """The least revision that this watch of the node may show next; 0: it has shown none."""

    def history_floor(self, number: int) -> int:
        """Revisions up to this one are not in the node's history any more."""

    def show(self, number: int, watch: int, item: bytes) -> None:
        """As if the watch had shown this item."""

    def lose_outcome(self, number: int, session: int, status: int) -> None:
        """As if a delete in this session, 0: the node's own, had been answered so."""

    def answer_counts(self) -> None:
        """As if every number that a counter of a client may come to had been answered to somebody before."""

    def hang_hosts(self) -> None:
        """The Python of every node stands still for good, and no engine is told to mind."""

    def change_rights_key(self) -> None:
        """A key of the principals has another value than what they were allowed to write."""
    def forget_grants(self) -> None:
        """Take all grants out of the model, as if the admin had made none."""
    def count_child(self) -> None:
        """Every node's root of znodes counts a child more than there is."""

    def orphan(self) -> int:
        """Every node forgets that one znode with children is one. How many it could be."""

    def orphan_ephemerals(self) -> int:
        """Every node has its ephemerals under leases that nobody was granted. How many there are."""

    def give_numbers(self) -> None:
        """As if the next hundred numbers of every parent had been given before."""

    def shift_zxids(self) -> None:
        """As if every entry that changed znodes had made the revision behind its own."""

    def refuse_answered(self) -> int:
        """As if a request that was done had come before the one in front of it. How many it could be."""

    def change_versions(self) -> None:
        """As if every znode had been written once more."""

    def change_leader(self) -> bool:
        """As if somebody else had led a group in the generation that goes on. False: no group has a leader now."""

    def raise_fences(self) -> None:
        """As if every group had had a generation of a fence that no generation reaches."""

    def take_old_sync(self) -> bool:
        """As if a member had synced for the generation before, and nobody had minded. False: no group is stable."""

    def change_assignments(self) -> None:
        """As if the resources of every group had been shared in the generation behind its own."""

    def add_member(self) -> None:
        """As if every group had had a member more that nobody saw go."""

    def disown(self) -> bool:
        """As if the resources of every group belonged to nobody. False: no group is stable."""

    def change_member_leases(self) -> bool:
        """As if each member had had another lease an entry ago. False: no group has a member."""

    def shift_offsets(self) -> None:
        """As if every record log had been given one offset more."""

    def change_records(self) -> None:
        """As if every record had another value."""

    def raise_epochs(self) -> None:
        """As if every producer had begun an epoch that it never reaches."""

    def replace_records(self) -> bool:
        """As if the first record of each log had a later one of its key. False: no log has two."""

    def extend_topics(self) -> bool:
        """As if every topic had more partitions. False: there is none."""

    def move_offsets(self) -> bool:
        """As if every offset had been committed once more. False: there is none."""

    def fill_queues(self, number: int) -> None:
        """As if no command of the node's callers might wait."""

    def rename(self, number: int) -> None:
        """As if the node were another incarnation than the one that its peers write to."""

    def hide_events(self) -> None:
        """As if the quiet key had changed with every revision so far, and the watch of node 0 had to show them all."""

    def cut_at_sync(self, number: int, call: int, is_after: bool) -> None:
        """The power of this node fails at the `call`-th sync from now, before or after it took effect. No lie."""
