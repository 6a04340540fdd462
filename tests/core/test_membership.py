"""Membership: what is valid, the bytes, and the two steps of a change (paper 6, thesis 4.3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.names import MemberRole, Status
from tests.faces.membership import MembershipHandle

INCOMING = MemberRole.VOTER_INCOMING
OUTGOING = MemberRole.VOTER_OUTGOING
LEARNER = MemberRole.LEARNER
LEARNER_NEXT = MemberRole.LEARNER_NEXT
MEMBERS_MAX = 32

MemberTuple = tuple[int, int, bytes, bytes]


def member(member_id: int, roles: int = INCOMING, name: bytes | None = None, address: bytes = b"h:1") -> MemberTuple:
    return (member_id, roles, b"n%d" % member_id if name is None else name, address)


def voters(*ids: int, learners: tuple[int, ...] = ()) -> MembershipHandle:
    return MembershipHandle([member(i) for i in ids] + [member(i, LEARNER) for i in learners])


def roles_of(membership: MembershipHandle) -> dict[int, int]:
    return {member_id: roles for member_id, roles, _, _ in membership.members}


@st.composite
def memberships(draw: st.DrawFn) -> MembershipHandle:
    """A valid membership at rest with up to 32 members; two of them overlap often, and an id always has one name."""
    an_id = st.integers(1, 8) | st.integers(1, 2**64 - 1)
    ids = draw(st.lists(an_id, min_size=1, max_size=MEMBERS_MAX, unique=True))
    names = [b"n%d" % member_id * (1 + member_id % 3) for member_id in ids]
    roles = [INCOMING] + [draw(st.sampled_from([INCOMING, LEARNER])) for _ in ids[1:]]
    addresses = [draw(st.binary(max_size=255)) for _ in ids]
    return MembershipHandle(list(zip(ids, roles, names, addresses, strict=True)))


@given(memberships())
def test_every_valid_membership_survives_its_bytes(membership: MembershipHandle) -> None:
    status, encoded = membership.encode()
    assert status == Status.OK
    assert MembershipHandle.decode(encoded) == (Status.OK, membership)


@given(memberships(), st.data())
def test_no_prefix_and_no_added_byte_is_a_membership(membership: MembershipHandle, data: st.DataObject) -> None:
    _, encoded = membership.encode()
    cut = data.draw(st.integers(0, len(encoded) - 1))
    assert MembershipHandle.decode(encoded[:cut])[0] == Status.BAD_LENGTH
    assert MembershipHandle.decode(encoded + b"\0")[0] == Status.BAD_LENGTH


@given(st.binary(max_size=200))
def test_random_bytes_are_refused_or_are_exactly_an_encoding(encoded: bytes) -> None:
    status, membership = MembershipHandle.decode(encoded)
    if status == Status.OK:
        assert membership is not None and membership.encode() == (Status.OK, encoded)
    else:
        assert status in (Status.BAD_LENGTH, Status.BAD_VERSION, Status.BAD_FIELD)


def test_every_flipped_bit_is_refused_or_is_another_valid_membership() -> None:
    """The record's checksum finds damage; the decoder must only never accept what it would not encode."""
    _, encoded = MembershipHandle([member(1), member(2, LEARNER)]).encode()
    for bit in range(len(encoded) * 8):
        flipped = bytearray(encoded)
        flipped[bit // 8] ^= 1 << bit % 8
        status, membership = MembershipHandle.decode(flipped)
        assert (status == Status.OK) == (membership is not None and membership.encode()[1] == bytes(flipped))


@pytest.mark.parametrize(
    ("position", "value", "status"),
    [
        (0, 2, Status.BAD_VERSION),
        (1, 33, Status.BAD_LENGTH),
        (2, 2, Status.BAD_FIELD),
        (7, 1, Status.BAD_FIELD),
        (8 + 8, 0, Status.BAD_FIELD),
        (8 + 8, OUTGOING, Status.BAD_FIELD),
        (8 + 9, 65, Status.BAD_LENGTH),
        (8 + 11, 1, Status.BAD_FIELD),
    ],
)
def test_a_wrong_field_is_refused(position: int, value: int, status: int) -> None:
    encoded = bytearray(MembershipHandle([member(1, name=b"n" * 64, address=b"a" * 255)]).encode()[1])
    encoded[position] = value
    assert MembershipHandle.decode(encoded)[0] == status


@pytest.mark.parametrize(
    ("members", "is_joint", "status"),
    [
        ([], False, Status.BAD_LENGTH),
        ([member(1, name=b"")], False, Status.BAD_LENGTH),
        ([member(0)], False, Status.BAD_FIELD),
        ([member(1, LEARNER)], False, Status.BAD_FIELD),
        ([member(1), member(1, name=b"other")], False, Status.BAD_FIELD),
        ([member(1, name=b"same"), member(2, name=b"same")], False, Status.BAD_FIELD),
        ([member(1, name=b"same"), member(2, LEARNER, b"same")], False, Status.OK),
        ([member(9), member(1, LEARNER, b"same"), member(2, LEARNER, b"same")], False, Status.BAD_FIELD),
        ([member(1, OUTGOING)], True, Status.BAD_FIELD),
        ([member(1, INCOMING)], True, Status.BAD_FIELD),
        ([member(1, INCOMING | OUTGOING)], True, Status.OK),
        ([member(1, INCOMING | OUTGOING)], False, Status.BAD_FIELD),
        ([member(1, INCOMING | LEARNER)], True, Status.BAD_FIELD),
        ([member(1, INCOMING), member(2, LEARNER_NEXT)], True, Status.BAD_FIELD),
        ([member(1, OUTGOING, b"same"), member(2, INCOMING, b"same")], True, Status.OK),
        ([member(1, INCOMING | OUTGOING, b"same"), member(2, INCOMING, b"same")], True, Status.BAD_FIELD),
        ([member(1, OUTGOING, b"s"), member(2, INCOMING, b"s"), member(3, LEARNER, b"s")], True, Status.BAD_FIELD),
    ],
)
def test_the_rules_of_a_membership(members: list[MemberTuple], is_joint: bool, status: int) -> None:
    membership = MembershipHandle(members, is_joint=is_joint)
    assert membership.check() == status
    assert membership.encode()[0] == status


def test_masks_are_by_position_and_a_leaving_voter_still_counts_as_outgoing_only() -> None:
    joint = MembershipHandle(
        [
            member(7, INCOMING | OUTGOING),
            member(8, OUTGOING),
            member(9, OUTGOING | LEARNER_NEXT),
            member(5, INCOMING),
            member(6, LEARNER),
        ],
        is_joint=True,
    )
    assert (joint.voters_incoming(), joint.voters_outgoing(), joint.learners()) == (0b01001, 0b00111, 0b10000)
    assert [joint.position(i) for i in (7, 6, 4)] == [0, 4, -1]


@given(memberships(), memberships())
def test_a_change_ends_at_its_target_and_its_middle_holds_both_electorates(
    current: MembershipHandle, target: MembershipHandle
) -> None:
    """Thesis 4.3: the joint membership decides with a majority of the old and one of the new voters."""
    status, joint = current.enter_joint(target)
    if status != Status.OK:
        assert status in (Status.ALREADY, Status.BAD_LENGTH, Status.BAD_FIELD)
        return
    joint_roles = roles_of(joint)
    assert {i for i, roles in joint_roles.items() if roles & OUTGOING} == set_of_voters(current)
    assert {i for i, roles in joint_roles.items() if roles & INCOMING} == set_of_voters(target)
    status, rest = joint.leave_joint()
    assert status == Status.OK
    assert sorted(rest.members) == sorted(target.members)


def set_of_voters(membership: MembershipHandle) -> set[int]:
    return {member_id for member_id, roles in roles_of(membership).items() if roles & INCOMING}


def test_a_demoted_voter_votes_until_the_change_is_left_and_is_a_learner_then() -> None:
    status, joint = voters(1, 2).enter_joint(voters(1, learners=(2,)))
    assert status == Status.OK
    assert roles_of(joint) == {1: INCOMING | OUTGOING, 2: OUTGOING | LEARNER_NEXT}
    assert roles_of(joint.leave_joint()[1]) == {1: INCOMING, 2: LEARNER}


def test_members_that_stay_keep_their_order_and_new_ones_follow() -> None:
    _, joint = voters(3, 1, 2).enter_joint(voters(5, 2, 3))
    assert [member_id for member_id, *_ in joint.members] == [3, 1, 2, 5]


def test_a_new_address_is_a_change_and_a_new_order_is_none() -> None:
    moved = MembershipHandle([member(1, address=b"elsewhere:1"), member(2)])
    status, joint = voters(1, 2).enter_joint(moved)
    assert (status, joint.members[0][3]) == (Status.OK, b"elsewhere:1")
    assert voters(1, 2).enter_joint(voters(2, 1))[0] == Status.ALREADY


def test_a_change_is_refused_while_one_is_under_way_or_when_an_id_takes_another_name() -> None:
    _, joint = voters(1, 2).enter_joint(voters(1))
    assert joint.enter_joint(voters(1))[0] == Status.BAD_FIELD
    assert voters(1, 2).enter_joint(joint)[0] == Status.BAD_FIELD
    assert voters(1).enter_joint(MembershipHandle([member(1, name=b"renamed")]))[0] == Status.BAD_FIELD
    assert voters(1).leave_joint()[0] == Status.BAD_FIELD


def test_a_change_of_more_members_than_fit_is_refused() -> None:
    assert voters(*range(1, 33)).enter_joint(voters(*range(2, 34)))[0] == Status.BAD_LENGTH


def test_a_caught_up_incarnation_is_swapped_for_the_old_one_of_its_name() -> None:
    """divergence.md "Incarnations": a wiped disk is another member; one joint change swaps the two."""
    current = MembershipHandle([member(1), member(2), member(3), member(4, LEARNER, b"n3")])
    status, target = current.swap(4)
    assert (status, roles_of(target)) == (Status.OK, {1: INCOMING, 2: INCOMING, 4: INCOMING})
    status, joint = current.enter_joint(target)
    assert status == Status.OK
    assert roles_of(joint) == {1: INCOMING | OUTGOING, 2: INCOMING | OUTGOING, 3: OUTGOING, 4: INCOMING}
    assert [current.swap(i)[0] for i in (1, 9)] == [Status.NOT_FOUND] * 2
    assert voters(1, learners=(2,)).swap(2)[0] == Status.NOT_FOUND


@pytest.mark.parametrize("demoted", [False, True])
def test_two_names_are_never_swapped_in_one_change(demoted: bool) -> None:
    current = MembershipHandle([member(i) for i in range(1, 6)])
    kept = [member(i) for i in range(1, 4)] + [member(14, name=b"n4"), member(15, name=b"n5")]
    if demoted:
        kept += [member(4, LEARNER), member(5, LEARNER)]
    assert current.enter_joint(MembershipHandle(kept))[0] == Status.BAD_FIELD
