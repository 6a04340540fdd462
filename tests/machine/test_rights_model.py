"""For random rights and random requests: the decision is the model's, and what `get` refuses is learned by no path.

The second is shown by two machines that differ only in keys that the user may not read. Whatever the user asks, in the
log or of the published state, the user hears the same of both.
"""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.machine import commands as c
from tests.machine.machines import Machine
from tests.machine.rights_model import Range, RightsModel, needs_of_txn

ROLES = [b"r1", b"r2"]
SESSION = 7
KEYS = [b"a", b"ab", b"b", b"c"]
BOUNDS = [b"", *KEYS, b"d"]
PLACES = sorted(BOUNDS)

key = st.sampled_from(KEYS)
value = st.sampled_from([b"", b"v", b"w" * 9])
lease = st.sampled_from([0, 0, 0, 1])
revision = st.integers(0, 6)
ranges = st.tuples(st.sampled_from(BOUNDS), st.sampled_from(BOUNDS)).filter(
    lambda pair: not pair[1] or pair[0] < pair[1]
)
any_ranges = st.tuples(st.sampled_from(BOUNDS), st.sampled_from(BOUNDS))
# Often everything but one of READ and WRITE, which most rules tell apart.
key_bits = st.sampled_from([c.READ, c.WRITE, c.WRITE | c.HOLD, c.READ | c.HOLD, c.READ | c.WATCH, 7, 13, 14, 15])
grants = st.lists(st.tuples(st.sampled_from(ROLES), key_bits, ranges), min_size=1, max_size=4)
taken = st.lists(st.tuples(st.sampled_from(ROLES), key_bits, ranges), max_size=1)
bound_roles = st.sets(st.sampled_from(ROLES), min_size=1)

put_flags = st.sampled_from([0, 0, c.WANT_PREVIOUS, c.KEEP_LEASE, c.KEEP_VALUE])


def written(kind: int, key: bytes, flags: int, value: bytes, lease: int, last: int) -> list[Any]:
    flags = 0 if kind == c.CREATE else flags
    last = last if kind == c.UPDATE else 0
    return [kind, flags, key, b"" if flags & c.KEEP_VALUE else value, 0 if flags & c.KEEP_LEASE else lease, last]


operation = st.one_of(
    st.tuples(st.sampled_from([c.PUT, c.CREATE, c.UPDATE]), key, put_flags, value, lease, revision).map(
        lambda fields: written(*fields)
    ),
    st.tuples(key, st.integers(0, 3), revision).map(lambda t: c.delete(t[0], flags=t[1], expected=t[2])),
    st.tuples(any_ranges, st.booleans()).map(lambda t: c.delete_range(*t[0], flags=c.WANT_PREVIOUS * t[1])),
    key.map(c.get),
    st.tuples(any_ranges, st.integers(0, 2)).map(lambda t: c.read_range(*t[0], t[1])),
    st.tuples(key, st.sampled_from([1, -3])).map(lambda t: c.add(*t)),
    st.tuples(key, key, value).map(
        lambda t: c.nested(c.add(t[0], 1), c.put(t[1], t[2], flags=c.KEY_FROM_RESULT, result_from=0))
    ),
)
compare = st.one_of(
    st.tuples(
        st.sampled_from([c.VERSION, c.CREATE_REVISION, c.MOD_REVISION, c.LEASE]), st.integers(1, 4), key, revision
    ),
    st.tuples(st.just(c.VALUE), st.integers(1, 4), key, value),
    st.tuples(st.just(c.RANGE_EMPTY), st.integers(1, 2), any_ranges).map(lambda t: (*t[:2], *t[2])),
).map(list)
inner = st.tuples(st.lists(compare, max_size=1), st.lists(operation, max_size=2), st.lists(operation, max_size=2)).map(
    lambda t: [c.TXN, 0, list(t)]
)
root_txn = st.one_of(
    operation.map(lambda only: c.txn([only])),
    operation.map(lambda only: c.txn([only])),
    compare.map(lambda only: c.txn([], [only])),
    inner.map(lambda nested: nested[2]),
    inner.map(lambda nested: c.txn([nested])),
)

fences = st.none() | st.none() | st.tuples(key, st.integers(1, 4))
requests = st.one_of(
    st.tuples(st.just(c.KEYS), root_txn, fences),
    st.tuples(st.just(c.KEYS), root_txn, fences),
    st.tuples(st.just(c.KEYS), root_txn, fences),
    st.tuples(st.just(c.GRANT), st.integers(1, 2), st.none()),
    st.tuples(st.just(c.REVOKE), st.integers(1, 3), st.none()),
    st.tuples(st.just(c.KEEP_ALIVE), st.lists(st.integers(1, 3), max_size=2), st.none()),
    st.tuples(st.just(c.USER), key, st.none()),
)
# One of each rule and key: whatever forgets a right is met soon.
PLAIN_REQUESTS: list[tuple[int, Any, Any]] = [
    *[
        (c.KEYS, c.txn([each]), None)
        for k in KEYS
        for each in (
            *(c.put(k, b"v"), c.put(k, b"v", flags=c.WANT_PREVIOUS), c.put(k, flags=c.KEEP_VALUE)),
            *(c.put(k, b"v", lease=1), c.create(k, b"v"), c.update(k, b"v"), c.delete(k), c.get(k), c.add(k, 1)),
            *(c.delete_range(k, k + b"\0"), c.read_range(k, k + b"\0")),
        )
    ],
    *[(c.KEYS, c.txn([], [[c.VERSION, c.EQUAL, k, 0]]), None) for k in KEYS],
    *[(c.KEYS, c.txn([], [[c.RANGE_EMPTY, c.EQUAL, k, b""]]), None) for k in KEYS],
    *[(c.KEYS, c.txn([]), (k, 1)) for k in KEYS],
    *[(c.GRANT, 1, None), (c.REVOKE, 1, None)] * 4,
]

reads = st.tuples(ranges, st.integers(0, 3), st.booleans(), st.booleans())


def machine_with(
    grants: list[tuple[bytes, int, Range]], taken: list[tuple[bytes, int, Range]], roles: set[bytes]
) -> tuple[Machine, RightsModel]:
    machine, model = Machine(), RightsModel({role: {} for role in ROLES}, {b"user": set()})
    machine.apply(c.command(c.LEVEL, 3))
    machine.apply(c.rights(c.USER_PUT, b"user", c.secret()))
    for role in ROLES:
        machine.apply(c.rights(c.ROLE_PUT, role))
    for verb, changes in ((c.GRANT_RIGHT, grants), (c.REVOKE_RIGHT, taken)):
        for role, bits, keys in changes:
            assert machine.apply(c.rights(verb, role, c.grant_of(bits, *keys))).status == c.OK
            model.change(verb, role, bits=bits, keys=keys)
    for role in roles:
        machine.apply(c.rights(c.BIND, b"user", role))
        model.change(c.BIND, b"user", role)
    machine.apply(c.rights(c.ENABLE))
    machine.apply(c.spoken(c.open_session(SESSION)))
    machine.apply(c.spoken(c.open_session(SESSION + 1), b"user"))
    return machine, model


def request_of(request: tuple[int, Any, Any], sequence: int) -> bytes:
    kind, what, fence = request
    fields = {
        c.GRANT: lambda: (what, 1000, b"note"),
        c.USER: lambda: (what, b"data"),
    }.get(kind, lambda: (what,))()
    return c.command(kind, *fields, session=SESSION + 1, sequence=sequence, fence=fence)


def is_allowed(model: RightsModel, request: tuple[int, Any, Any]) -> bool:
    """The model's answer to a request that names no lease of another."""
    kind, what, fence = request
    needs = list(needs_of_txn(what)) if kind == c.KEYS else []
    if fence:
        needs.append((c.READ, fence[0], None))
    if kind == c.USER:
        needs += [(c.READ, what, None), (c.WRITE, what, None)]
    if kind in (c.GRANT, c.REVOKE, c.KEEP_ALIVE) and not model.has(b"user", c.HOLD):
        return False
    return all(
        model.may(b"user", right, start) if end is None else model.may_all(b"user", right, start, end, PLACES)
        for right, start, end in needs
    )


@settings(max_examples=150)
@given(grants, taken, bound_roles, st.lists(requests, min_size=8, max_size=20))
def test_the_decision_is_that_of_the_model(
    grants: list[tuple[bytes, int, Range]],
    taken: list[tuple[bytes, int, Range]],
    roles: set[bytes],
    asked: list[tuple[int, Any, Any]],
) -> None:
    """A denied command changes nothing; any other is answered for another reason or carried out."""
    machine, model = machine_with(grants, taken, roles)
    for sequence, request in enumerate(asked, 1):
        before = machine.handle.status()
        answer = machine.apply(c.spoken(request_of(request, sequence), b"user"))
        assert (answer.status == c.PERMISSION_DENIED) == (not is_allowed(model, request))
        if answer.status == c.PERMISSION_DENIED:
            after = machine.handle.status()
            assert (after.revision, after.leases, answer.changed) == (before.revision, before.leases, 0)


@given(grants, taken, bound_roles, ranges, st.sampled_from([c.READ, c.WRITE, c.WATCH, c.HOLD]))
def test_readers_are_told_the_same_as_commands(
    grants: list[tuple[bytes, int, Range]],
    taken: list[tuple[bytes, int, Range]],
    roles: set[bytes],
    keys: Range,
    right: int,
) -> None:
    machine, model = machine_with(grants, taken, roles)
    assert machine.handle.allow(b"user", right, *keys) == model.may_all(b"user", right, *keys, PLACES)
    if keys[0]:
        assert machine.handle.allow(b"user", right, keys[0]) == model.may(b"user", right, keys[0])
    assert not machine.handle.allow(b"nobody", right, *keys)


def write_secrets(machines: list[Machine], secrets: list[bytes], choices: list[tuple[int, int]], sequence: int) -> int:
    """The node writes keys that the user may not read, in each machine others, in equally many revisions."""
    for chosen in choices:
        sequence += 1
        for machine, choice in zip(machines, chosen, strict=True):
            key = secrets[choice % len(secrets)]
            payload = c.keys(c.put(key, b"%d" % sequence * (1 + choice)), session=SESSION, sequence=sequence)
            assert machine.apply(payload).status == c.OK
    return sequence


def heard_of_state(machine: Machine, read: tuple[Range, int, bool, bool]) -> Any:
    """What a reader gets of the published state, and of the history, if it may ask at all."""
    (start, end), limit, keys_only, is_past = read
    machine.handle.publish()
    status = machine.handle.status()
    if not machine.handle.allow(b"user", c.READ, start, end):
        return c.PERMISSION_DENIED
    revision = status.revision // 2 if is_past else 0
    page = machine.handle.range_shared(start, end, revision=revision, limit=limit, keys_only=keys_only)
    count = (
        machine.handle.range_shared(start, end, revision=revision, count_only=True),
        machine.handle.range_shared(start, end, revision=revision, limit=limit, delimiter=start[:1] or b"a", skip=1),
    )
    if not machine.handle.allow(b"user", c.WATCH, start, end):
        return page, count
    events = [
        change
        for each in range(status.compacted + 1, status.revision + 1)
        for change in machine.handle.history(each)[1]
        if start <= change[0][0] and (not end or change[0][0] < end)
    ]
    return page, count, events


@settings(max_examples=60)
@given(grants, taken, bound_roles, st.lists(requests, max_size=4), st.lists(reads, max_size=3), st.integers(0, 2**32))
def test_what_get_refuses_is_learned_by_no_path(
    grants: list[tuple[bytes, int, Range]],
    taken: list[tuple[bytes, int, Range]],
    roles: set[bytes],
    asked: list[tuple[int, Any, Any]],
    read: list[tuple[Range, int, bool, bool]],
    seed: int,
) -> None:
    """Forty plain requests in an order of the seed, some others among them, while secrets change."""
    # Rules that forget READ show where everything else is granted.
    grants = [*grants[:2], (b"r1", c.WRITE | c.HOLD | c.WATCH, (b"", b""))]
    machine, model = machine_with(grants, taken, roles)
    machines = [machine, machine_with(grants, taken, roles)[0]]
    secrets = [key for key in KEYS if not model.may(b"user", c.READ, key)]
    generator = random.Random(seed)
    steps = [*generator.sample(PLAIN_REQUESTS, 40), *asked]
    generator.shuffle(steps)
    sequence = 0
    for number, request in enumerate(steps, 1):
        if secrets:
            choices = [(generator.randrange(3), generator.randrange(3)) for _ in range(generator.randrange(2))]
            sequence = write_secrets(machines, secrets, choices, sequence)
        payload = c.spoken(request_of(request, number), b"user")
        first, second = (machine.apply(payload) for machine in machines)
        assert first == second, request
    for each in read:
        heard = [heard_of_state(machine, each) for machine in machines]
        assert heard[0] == heard[1]
