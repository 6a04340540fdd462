"""A check that cannot fail proves nothing: each one is told a lie about a healthy world and must name its invariant."""

from __future__ import annotations

from collections.abc import Callable

import msgpack
import pytest

from raftmeta.sim.world.world_handle import World
from tests.faces.truth import Liar

SETTLE_EVENTS = 200_000
REGISTER = 3  # of the workload: put and read, never deleted (raftmeta/sim/world/witness)


@pytest.fixture
def world() -> World:
    """Three nodes without faults, some hundred entries on the way."""
    world = World(5)
    world.run(5_000)
    assert world.violation is None
    assert world.committed > 100
    return world


def leader_of(world: World) -> dict[str, int]:
    leader = max((node for node in world.nodes() if node["is_up"]), key=lambda node: (node["role"], node["term"]))
    assert leader["id"] == leader["leader"]
    return leader


def follower_of(world: World) -> dict[str, int]:
    return next(node for node in world.nodes() if node["number"] != leader_of(world)["number"])


def expect(world: World, invariant: str) -> None:
    assert world.violation is not None
    assert world.violation.split(" ")[0] == invariant, world.violation


def test_a_second_leader_of_a_term_is_seen(world: World) -> None:
    """I1: paper 5.2."""
    leader = leader_of(world)
    Liar(world).lead(follower_of(world)["number"], leader["term"])
    expect(world, "I1")


def test_another_entry_of_the_same_index_and_term_is_seen(world: World) -> None:
    """I2: a log that comes back is held against what is committed."""
    liar = Liar(world)
    liar.change_chain(50)
    liar.recover(follower_of(world)["number"])
    expect(world, "I2")


def test_a_leader_without_a_committed_entry_is_seen(world: World) -> None:
    """I3: paper 5.4.3; its last committed entry is another one than the cluster's."""
    liar = Liar(world)
    liar.change_committed_entry(world.committed)
    liar.lead(leader_of(world)["number"], leader_of(world)["term"] + 1)
    expect(world, "I3")


def test_a_leader_of_a_term_that_is_over_need_not_have_what_came_after_it(world: World) -> None:
    """I3 speaks of the leaders of higher terms (paper 5.4.3); late votes may still make one of a lower term."""
    liar = Liar(world)
    liar.change_committed_entry(world.committed)
    liar.lead(leader_of(world)["number"], leader_of(world)["term"])
    assert world.violation is None


def test_a_different_entry_at_a_committed_index_is_seen(world: World) -> None:
    """I4: compared with the logs of all nodes at the end."""
    Liar(world).change_chain(50)
    world.settle(SETTLE_EVENTS)
    expect(world, "I4")


def test_an_entry_that_a_node_knew_as_committed_and_that_is_another_one_now_is_seen(world: World) -> None:
    """I25: it was cut, and the node went on."""
    leader = leader_of(world)
    liar = Liar(world)
    liar.change_known(leader["number"], leader["committed"])
    liar.forget_committed(leader["number"], 1)
    liar.look(leader["number"])
    expect(world, "I25")


def test_an_acknowledgement_above_the_disk_is_seen(world: World) -> None:
    """I5: index is not on this node's disk yet, whatever its log says."""
    follower = follower_of(world)
    Liar(world).acknowledge(follower["number"], follower["last"] + 1)
    expect(world, "I5")


def test_an_acknowledgement_of_what_the_disk_has_is_no_violation(world: World) -> None:
    """I5, the other side: a true statement passes."""
    follower = follower_of(world)
    Liar(world).acknowledge(follower["number"], follower["persisted"])
    assert world.violation is None


def test_an_acknowledgement_above_a_damaged_record_is_seen(world: World) -> None:
    """I5: the record was there before the node came back, and is not any more."""
    follower = follower_of(world)
    liar = Liar(world)
    liar.damage(follower["number"], follower["persisted"])
    liar.acknowledge(follower["number"], follower["persisted"] - 1)
    assert world.violation is None
    liar.acknowledge(follower["number"], follower["persisted"])
    expect(world, "I5")


def test_a_term_that_is_not_durable_is_seen(world: World) -> None:
    """I6: no word of a term before the term is on the disk."""
    follower = follower_of(world)
    Liar(world).campaign(follower["number"], follower["term"] + 1)
    expect(world, "I6")


def test_a_vote_that_is_not_durable_is_seen(world: World) -> None:
    """I6: the disk knows a vote for another candidate."""
    follower = follower_of(world)
    Liar(world).grant_vote(leader_of(world)["number"], follower["number"])
    expect(world, "I6")


def test_a_commit_without_a_durable_quorum_is_seen(world: World) -> None:
    """I7: the leader commits what too few disks hold."""
    leader = leader_of(world)["number"]
    liar = Liar(world)
    liar.forget_committed(leader, 1)
    liar.forget_disks()
    liar.look(leader)
    expect(world, "I7")


def test_a_log_that_lost_what_was_acknowledged_is_seen(world: World) -> None:
    """I8: more was vouched for than came back."""
    follower = follower_of(world)
    liar = Liar(world)
    liar.vouch(follower["number"], follower["last"] + 1)
    liar.recover(follower["number"])
    expect(world, "I8")


def test_a_commit_index_that_steps_back_is_seen(world: World) -> None:
    """I9."""
    leader = leader_of(world)["number"]
    liar = Liar(world)
    liar.raise_committed(leader)
    liar.look(leader)
    expect(world, "I9")


def test_two_open_changes_of_membership_are_seen(world: World) -> None:
    """I10: thesis 4.1."""
    leader = leader_of(world)["number"]
    liar = Liar(world)
    liar.open_change(leader, 0)
    liar.open_change(leader, 0)
    liar.look(leader)
    expect(world, "I10")


def test_electorates_that_do_not_intersect_are_seen(world: World) -> None:
    """I10: of three to one in one step: the two others and that one could both decide."""
    leader = leader_of(world)["number"]
    liar = Liar(world)
    liar.open_change(leader, 2)
    liar.look(leader)
    expect(world, "I10")


def changed_world() -> World:
    """Five nodes, and a membership that was changed some times."""
    world = World(5, nodes=5, membership_ppm=500_000, fault_gap_us=100_000)
    world.run(60_000)
    assert (world.violation, world.counts["memberships"] > 1) == (None, True)
    return world


def test_a_membership_that_nobody_committed_is_seen() -> None:
    """I10: the committed log has the founding one only, and a node works under another."""
    world = changed_world()
    Liar(world).forget_memberships()
    Liar(world).look(leader_of(world)["number"])
    expect(world, "I10")


def test_a_membership_with_other_members_than_the_committed_one_is_seen() -> None:
    """I10: the index is right and the bytes are not."""
    world = changed_world()
    Liar(world).change_memberships()
    Liar(world).look(leader_of(world)["number"])
    expect(world, "I10")


def test_a_membership_without_an_entry_is_seen(world: World) -> None:
    """I10: the node works under one that its log does not have."""
    leader = leader_of(world)["number"]
    Liar(world).open_change(leader, 0)
    Liar(world).look(leader)
    expect(world, "I10")


def test_a_different_state_is_seen(world: World) -> None:
    """I11, I20: one index, two state hashes."""
    node = follower_of(world)
    liar = Liar(world)
    liar.change_state_hash(node["applied"])
    liar.forget_applied(node["number"])
    liar.look(node["number"])
    expect(world, "I11")


def test_a_read_that_misses_acknowledged_entries_is_seen(world: World) -> None:
    """I13: the next read is served from a state without them."""
    Liar(world).owe_reads(1_000_000)
    world.run(20_000)
    expect(world, "I13")


def test_a_read_that_no_round_proves_is_seen(world: World) -> None:
    """I13: all rounds that were answered had been sent before the read was asked."""
    while world.violation is None and world.counts["events"] < 50_000:
        Liar(world).ask_later(3_600_000_000_000)
        world.run(10)
    assert world.violation is not None and world.violation.startswith("I13 a read that nothing proves")


def test_a_read_under_a_lease_that_is_over_is_seen() -> None:
    """I13: the newest round of the leader that was answered is older than an election time-out."""
    world = World(5, lease_reads=1, client_gap_us=500)
    world.run(20_000)
    assert (world.violation, world.counts["reads"] > 100) == (None, True)
    Liar(world).age_rounds(leader_of(world)["number"], 2_000_000_000)
    world.run(2_000)
    assert world.violation is not None and world.violation.startswith("I13 a read that nothing proves")


def test_a_counter_above_what_was_submitted_is_seen(world: World) -> None:
    """I14: somebody's add counted twice."""
    Liar(world).count_adds(1_000_000)
    world.settle(SETTLE_EVENTS)
    expect(world, "I14")


def test_a_gap_in_a_watch_is_seen(world: World) -> None:
    """I15: the next revision is not the one after the last."""
    Liar(world).skip_event()
    world.run(20_000)
    expect(world, "I15")


LAGGED, COMPACTED = 3, 4  # kinds of items (raftmeta/machine/watches)


def item(kind: int, revision: int) -> bytes:
    return msgpack.packb([kind, revision, 0, [], False])


def test_a_watch_that_lagged_goes_on_where_it_stopped(world: World) -> None:
    """I15: at the first revision that it did not show, and at no later one."""
    liar = Liar(world)
    liar.show(0, 0, item(LAGGED, liar.shown_next(0, 0)))
    assert world.violation is None
    liar.show(1, 0, item(LAGGED, liar.shown_next(1, 0) + 1))
    expect(world, "I15")


def test_a_watch_that_was_compacted_goes_on_behind_the_floor() -> None:
    """I15: at the first revision that the history has."""
    world = World(5, history_bytes_max=4096)
    while world.counts["compactions"] == 0:
        world.run(1_000)
    world.run(1_000)
    assert world.violation is None
    liar = Liar(world)
    floor = liar.history_floor(0)
    assert floor > 0
    liar.show(0, 0, item(LAGGED, liar.shown_next(0, 0)))
    liar.show(0, 0, item(COMPACTED, floor + 2))
    expect(world, "I15")


@pytest.mark.parametrize("status", [48, 16])  # OUTCOME_UNKNOWN, RESULT_EVICTED
def test_an_outcome_that_is_lost_though_the_session_lives_is_seen(world: World, status: int) -> None:
    """I14: the session keeps what nobody has said to have; only where it is gone, nobody can know."""
    number = follower_of(world)["number"]
    if status == 48:
        Liar(world).lose_outcome(number, 12345, status)
        assert world.violation is None
    Liar(world).lose_outcome(number, 0, status)
    expect(world, "I14")


@pytest.mark.parametrize("window", [1, 8])
def test_a_command_of_a_client_that_counts_twice_is_seen(window: int) -> None:
    """I14: its counter moved by more than it was told to."""
    world = World(5, client_window=window)
    world.run(5_000)
    assert world.violation is None
    Liar(world).forget_counts()
    world.run(20_000)
    expect(world, "I14")


def test_two_counts_with_one_number_are_seen() -> None:
    """I14: of several commands under way two are answered alike."""
    world = World(5, client_window=8)
    world.run(5_000)
    assert (world.violation, world.counts["windows"] > 100) == (None, True)
    Liar(world).answer_counts()
    world.run(20_000)
    expect(world, "I14")


def test_a_lease_that_is_kept_for_a_host_that_stands_still_is_seen() -> None:
    """I17: Config.host_watchdog_s is over, and the engine goes on keeping it."""
    world = World(5, client_gap_us=500, host_watchdog_ms=200)
    world.run(20_000)
    assert (world.violation, world.counts["leases_granted"] > 0) == (None, True)
    Liar(world).hang_hosts()
    world.run(200_000)
    expect(world, "I17")


def test_a_write_under_an_old_token_is_seen(world: World) -> None:
    """I18b: somebody with a newer one was there before."""
    Liar(world).raise_token()
    world.run(50_000)
    expect(world, "I18b")


def test_an_answer_for_what_nobody_committed_is_seen(world: World) -> None:
    """I12: whoever says OK has seen it committed."""
    liar = Liar(world)
    liar.answer(world.committed + 1)
    liar.look(leader_of(world)["number"])
    expect(world, "I12")


def test_what_a_watch_did_not_show_is_seen(world: World) -> None:
    """I15, I16: the next event, or mark, comes after revisions that were to be shown before."""
    Liar(world).hide_events()
    world.run(200_000)
    assert world.violation is not None
    assert world.violation.split(" ")[0] in ("I15", "I16")


def test_a_frame_for_another_incarnation_is_seen(world: World) -> None:
    """I18: what was written to an incarnation that is gone must not be taken by its successor."""
    Liar(world).rename(follower_of(world)["number"])
    world.run(1_000)
    expect(world, "I18")


def test_a_damaged_frame_that_is_taken_is_seen(world: World) -> None:
    """I19: its bytes are sound, and the world knows better."""
    Liar(world).blame_frames()
    world.run(1_000)
    expect(world, "I19")


def test_a_value_that_comes_back_is_seen(world: World) -> None:
    """I24: the register had values, and now somebody is told that it never had one. No index is looked at."""
    world.run(20_000)
    Liar(world).see(REGISTER, 0)
    expect(world, "I24")


def test_a_value_that_nobody_wrote_is_seen(world: World) -> None:
    """I24: a read answers with something out of the air."""
    Liar(world).see(REGISTER, 1)
    expect(world, "I24")


def test_a_counter_that_repeats_itself_is_seen(world: World) -> None:
    """I24: the same number for somebody who called when it had been answered."""
    Liar(world).count_again(0)
    expect(world, "I24")


def test_copies_of_a_user_machine_that_differ_are_seen() -> None:
    """I11: a copy that starts again runs the same commands and comes to another state."""
    world = World(5, users=1)
    world.run(20_000)
    assert world.counts["user_commands"] > 100
    Liar(world).change_copies()
    world.run(50_000)
    expect(world, "I11")


def test_a_user_command_that_runs_elsewhere_is_seen() -> None:
    """I14: not at the index that its caller was told."""
    world = World(5, users=1)
    world.run(20_000)
    assert world.counts["user_calls"] > 10
    Liar(world).move_user_commands()
    world.run(50_000)
    expect(world, "I14")


def test_a_queue_above_its_cap_is_seen(world: World) -> None:
    """I21: a command waits where none may."""
    number = leader_of(world)["number"]
    while world.nodes()[number]["outstanding"] == 0:
        world.run(1)
    liar = Liar(world)
    liar.fill_queues(number)
    liar.look(number)
    expect(world, "I21")


def test_a_lease_that_ends_before_its_deadline_is_seen() -> None:
    """I17: the state had shown a later deadline."""
    world = World(5, client_gap_us=500)
    world.run(20_000)
    assert world.counts["leases_granted"] > 0
    Liar(world).extend_leases(1_000_000)
    world.run(20_000)
    expect(world, "I17")


def test_a_lease_that_ends_while_its_keeper_believes_in_it_is_seen() -> None:
    """I17: a node is cut off for longer than its lease lives, and was told that it has an hour more."""
    world = World(5, client_gap_us=500, lease_ttl_ms=500)
    world.run(20_000)
    liar = Liar(world)
    liar.believe_leases(3_600_000_000_000)
    liar.cut_off(follower_of(world)["number"])
    world.run(200_000)
    expect(world, "I17")


def test_a_call_that_nobody_answers_is_seen(world: World) -> None:
    """I22: the network is whole, and somebody waits for ever."""
    for number in range(3):
        Liar(world).forget_answer(number)
    world.settle(SETTLE_EVENTS)
    expect(world, "I22")


def test_a_full_leader_that_keeps_the_lead_is_seen(world: World) -> None:
    """I22: it has less room than it may have, and two others have enough."""
    Liar(world).owe_room()
    world.settle(SETTLE_EVENTS)
    expect(world, "I22")
    assert world.counts["full_leaders"] == 1


def test_a_point_that_the_log_does_not_have_is_seen(world: World) -> None:
    """I11: a node that counts anew from another entry would take other snapshots than all others."""
    liar = Liar(world)
    number = follower_of(world)["number"]
    liar.forget_applied(number)
    liar.look(number)
    assert world.violation is None
    liar.shift_point(number)
    liar.look(number)
    expect(world, "I11")


def test_a_node_that_stops_itself_is_seen(world: World) -> None:
    """Whatever made it: a belief of its own that does not hold is a bug."""
    Liar(world).stop(follower_of(world)["number"])
    world.run(5_000)
    assert world.violation is not None
    assert world.violation.startswith("a node stopped itself")


def test_a_node_whose_disk_failed_stops_and_is_started_again(world: World) -> None:
    """A failed sync poisons the log; the node says nothing more, and its next life reads the disk."""
    Liar(world).fail_next_sync(follower_of(world)["number"])
    world.run(5_000)
    assert (world.violation, world.counts["disk_errors"]) == (None, 1)


def test_lies_about_nodes_that_are_not_there_are_refused(world: World) -> None:
    """A number beyond the cluster."""
    with pytest.raises(ValueError, match="no node 3"):
        Liar(world).look(3)


@pytest.fixture
def guarded() -> World:
    """Three nodes without faults and with rights; principals have been refused and served."""
    world = World(7, rights=1, client_gap_us=1_000)
    world.run(60_000)
    assert world.violation is None
    assert world.counts["rights_checks"] > 1_000
    assert world.counts["principals_denied"] > 50
    assert world.counts["principal_commands"] > 2 * world.counts["principals_denied"]
    return world


def test_a_key_that_rights_forbid_is_seen(guarded: World) -> None:
    """I26: a node has a value that nobody was allowed to write."""
    Liar(guarded).change_rights_key()
    guarded.run(5_000)
    expect(guarded, "I26")


def test_principals_speak_by_tokens_and_an_admin_comes_from_the_founding(guarded: World) -> None:
    """Tokens are made, used, and end in each way; the founder claims, and its token counts once."""
    counts = guarded.counts
    assert counts["token_commands"] > 20 and counts["tokens_made"] > 20
    assert counts["tokens_expired"] > 0
    assert counts["tokens_ended"] > 2 * counts["tokens_expired"]
    assert counts["founders_claimed"] > 2


def test_a_right_that_was_taken_away_is_seen(guarded: World) -> None:
    """I26: a node lets a principal read or write what it may not any more."""
    Liar(guarded).forget_grants()
    guarded.run(20_000)
    expect(guarded, "I26")


@pytest.fixture
def asked() -> World:
    """Three nodes without faults, whose doors ask for znodes; all of it has happened."""
    world = World(7, znodes=1, client_gap_us=1_000)
    world.run(100_000)
    assert world.violation is None
    counts = world.counts
    assert counts["znodes_lost"] == 0
    assert counts["znode_checks"] > 1_000
    assert counts["znode_answers"] > 1_000
    assert counts["znode_answers"] > counts["znodes_refused"] > 100
    for name in ("znodes_out_of_order", "znode_writes_refused", "znode_owners_ended", "znode_reads"):
        assert counts[name] > 0, name
    return world


def look_at_all(world: World) -> None:
    """Before another answer comes, which would tell of the lie in its own way."""
    liar = Liar(world)
    for node in world.nodes():
        liar.forget_applied(node["number"])
        liar.look(node["number"])


def test_a_counter_of_a_znode_that_counts_nobody_is_seen(asked: World) -> None:
    """I27: one child more than there is."""
    Liar(asked).count_child()
    look_at_all(asked)
    expect(asked, "I27")


def test_a_number_that_is_given_again_is_seen(asked: World) -> None:
    """I28: two children of one parent."""
    Liar(asked).give_numbers()
    asked.run(50_000)
    expect(asked, "I28")


def test_an_ephemeral_without_a_lease_is_seen(asked: World) -> None:
    """I29: nobody was granted it."""
    while Liar(asked).orphan_ephemerals() == 0:
        asked.run(100)
    look_at_all(asked)
    expect(asked, "I29")


def test_a_revision_of_another_entry_is_seen(asked: World) -> None:
    """I30: the znodes changed in other revisions than those that were told first."""
    Liar(asked).shift_zxids()
    asked.run(5_000)
    expect(asked, "I30")


def test_a_request_before_its_turn_is_seen(asked: World) -> None:
    """I31: it came too early, and its session keeps a result of it."""
    assert Liar(asked).refuse_answered() > 0
    look_at_all(asked)
    expect(asked, "I31")


def test_a_znode_without_one_above_it_is_seen(asked: World) -> None:
    """I32: what is above it is a key like any other."""
    assert Liar(asked).orphan() == 1
    look_at_all(asked)
    expect(asked, "I32")


def test_a_znode_that_zookeeper_would_not_have_is_seen(asked: World) -> None:
    """I33: it was written once less than the log says."""
    Liar(asked).change_versions()
    asked.run(5_000)
    expect(asked, "I33")


@pytest.fixture
def grouped() -> World:
    """Three nodes without faults, and members of worker groups; all of it has happened."""
    world = World(7, groups=1, client_gap_us=1_000)
    world.run(300_000)
    assert world.violation is None
    counts = world.counts
    assert counts["groups_lost"] == 0
    assert counts["group_checks"] > 1_000
    for name in (
        "group_requests", "groups_refused", "group_generations", "groups_stable", "group_timers",
        "group_members_ended", "group_replaced", "group_writes", "group_writes_fenced",
    ):  # fmt: skip
        assert counts[name] > 0, name
    return world


def wait_until(world: World, lie: Callable[[], bool]) -> None:
    """Until the world is such that the lie can be told."""
    for _ in range(1_000):
        if lie():
            return
        world.run(10)
    raise AssertionError("it never was")


def test_another_leader_of_a_generation_is_seen(grouped: World) -> None:
    """I34: the leader is not who it was an entry ago."""
    wait_until(grouped, Liar(grouped).change_leader)
    grouped.run(5_000)
    expect(grouped, "I34")


def test_a_generation_with_an_old_fence_is_seen(grouped: World) -> None:
    """I35: there was a later fence before."""
    Liar(grouped).raise_fences()
    grouped.run(100_000)
    expect(grouped, "I35")


def test_a_sync_of_an_old_generation_that_is_taken_is_seen(grouped: World) -> None:
    """I36: the machine said yes."""
    wait_until(grouped, Liar(grouped).take_old_sync)
    expect(grouped, "I36")


def test_a_write_of_another_generation_s_owner_is_seen(grouped: World) -> None:
    """I37: the fence held, and the assignment in force is another one."""
    Liar(grouped).change_assignments()
    grouped.run(100_000)
    expect(grouped, "I37")


def test_a_member_that_goes_without_a_reason_is_seen(grouped: World) -> None:
    """I38: it was there before the entry, and nothing in the entry ends it."""
    Liar(grouped).add_member()
    grouped.run(5_000)
    expect(grouped, "I38")


def test_a_stable_group_whose_assignment_is_another_one_is_seen(grouped: World) -> None:
    """I39: members hold what their leader did not give them."""
    wait_until(grouped, Liar(grouped).disown)
    grouped.run(5_000)
    expect(grouped, "I39")


def test_a_member_with_another_lease_is_seen(grouped: World) -> None:
    """I51: it had another one an entry ago, and it stays."""
    wait_until(grouped, Liar(grouped).change_member_leases)
    grouped.run(5_000)
    expect(grouped, "I51")


@pytest.fixture
def named() -> World:
    """Three nodes without faults, whose sessions name their processes."""
    world = World(5, processes=1, client_gap_us=500)
    world.run(20_000)
    assert world.violation is None
    return world


def test_an_entry_that_ends_a_process_that_runs_is_seen(named: World) -> None:
    """I60: the process is up, and nobody said so."""
    Liar(named).end_process(follower_of(named)["number"])
    expect(named, "I60")


def test_a_session_of_an_ended_process_is_seen(named: World) -> None:
    """I61: an entry ended the process, and its session stands in the state."""
    Liar(named).end_session(follower_of(named)["number"])
    named.run(1_000)
    expect(named, "I61")


def test_a_lease_that_ends_with_another_process_than_its_keeper_s_is_seen() -> None:
    """I17: what ended is the process before the one that was granted the lease."""
    world = World(
        1, processes=1, nodes=3, crash_ppm=900_000, fault_gap_us=150_000, down_us=400_000, client_gap_us=3_000,
        election_timeout_ticks=10, lease_ttl_ms=3_000,
    )  # fmt: skip
    world.run(100_000)
    assert world.violation is None
    assert world.counts["leases_freed"] > 0

    def is_seen() -> bool:
        Liar(world).move_leases()
        return world.violation is not None

    wait_until(world, is_seen)
    expect(world, "I17")


@pytest.fixture
def produced() -> World:
    """Three nodes without faults, and clients of topics; all of it has happened."""
    world = World(3, topics=1, client_gap_us=1_000)
    world.run(100_000)
    assert world.violation is None
    counts = world.counts
    for name in (
        "topics_made", "topics_refused", "offsets_committed", "offsets_refused", "offsets_deleted",
        "records_appended", "records_repeated", "records_refused", "records_fenced", "records_replaced",
        "records_swept", "records_trimmed", "records_dropped", "topic_answers", "topic_checks",
    ):  # fmt: skip
        assert counts[name] > 0, name
    return world


def test_an_offset_of_a_record_that_is_not_the_next_is_seen(produced: World) -> None:
    """I45: the model has given one more."""
    Liar(produced).shift_offsets()
    produced.run(5_000)
    expect(produced, "I45")


def test_a_record_that_is_not_as_it_was_appended_is_seen(produced: World) -> None:
    """I46: its value is another one."""
    Liar(produced).change_records()
    produced.run(5_000)
    expect(produced, "I46")


def test_a_batch_that_should_be_refused_is_seen(produced: World) -> None:
    """I47: its producer had begun a newer epoch."""
    Liar(produced).raise_epochs()
    produced.run(5_000)
    expect(produced, "I47")


def test_a_record_behind_which_its_key_comes_again_is_seen(produced: World) -> None:
    """I48: the model has taken it out."""
    wait_until(produced, Liar(produced).replace_records)
    produced.run(5_000)
    expect(produced, "I48")


def test_a_topic_that_is_not_as_it_was_made_is_seen(produced: World) -> None:
    """I49: it has other partitions."""
    wait_until(produced, Liar(produced).extend_topics)
    produced.run(5_000)
    expect(produced, "I49")


def test_an_offset_that_nobody_committed_is_seen(produced: World) -> None:
    """I50: the last commit said another one."""
    wait_until(produced, Liar(produced).move_offsets)
    produced.run(5_000)
    expect(produced, "I50")
