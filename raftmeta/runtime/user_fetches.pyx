"""Fetches of copies: answered at once, or kept until an apply brings something for their machine.

What it decides: how much a copy gets at once. What it never does: judge a command, or remember what a copy has; the
copy says so each time, and a copy that starts again simply says less.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset

from raftmeta.machine.user_machines cimport UserDump, UserMachine, user_dump_is_late, users_find, users_take
from raftmeta.native.containers cimport Vec
from raftmeta.raft.types cimport index_t
from raftmeta.runtime.engine_state cimport Engine, Submission
from raftmeta.status cimport BAD_FIELD, NO_MEMORY, NODE_CLOSED, OK, status_t

cdef enum:
    TUNE_COMMANDS_BYTES = 256 * 1024    # given at once
    TUNE_DUMP_BYTES = 1024 * 1024


cdef void _end(Engine* engine, Submission* submission, status_t status, const uint8_t* body,
               uint32_t length) noexcept nogil:
    if submission.owner != NULL:
        engine.callers.done(engine.callers.self, submission.owner, status, 0, engine.applied, body, length)
    free(submission)


cdef inline UserMachine* _machine_of(Engine* engine, const Submission* submission, size_t skipped) noexcept nogil:
    return users_find(&engine.machine.users, <const uint8_t*> submission + sizeof(Submission) + skipped,
                      <uint32_t> (submission.length - skipped))


cdef bint _give_dump(const UserDump* dump, uint64_t offset, Vec[uint8_t]* out) noexcept nogil:
    """Bytes of the dump from offset on: the rest of one part, and as many whole ones as fit."""
    cdef uint64_t passed = 0
    cdef size_t end = out.size + TUNE_DUMP_BYTES
    cdef uint64_t skipped
    cdef size_t i
    for i in range(dump.parts.size):
        if passed + dump.parts.data[i].used > offset:
            skipped = offset - passed if offset > passed else <uint64_t> 0
            if not out.append(dump.parts.data[i].bytes() + skipped, dump.parts.data[i].used - skipped):
                return False
            if out.size >= end:
                return True
        passed += dump.parts.data[i].used
    return True


cdef bint _answer(Engine* engine, Submission* submission) noexcept nogil:
    """False: there is nothing for it yet."""
    cdef const UserFetch* fetch = <const UserFetch*> (<const uint8_t*> submission + sizeof(Submission))
    cdef UserMachine* machine = _machine_of(engine, submission, sizeof(UserFetch))
    cdef UserNews news
    cdef bint is_given
    if machine == NULL or fetch.after >= machine.last and fetch.dump_seen == machine.dump.index:
        return False
    memset(&news, 0, sizeof(UserNews))
    news.gives_dump = fetch.after < machine.dump.index
    news.last = machine.last
    news.point = machine.point
    news.is_late = user_dump_is_late(machine)
    news.dump_index = machine.dump.index
    news.dump_digest = machine.dump.digest
    news.dump_total = machine.dump.total
    # Another dump than the copy was being given: from its beginning.
    news.offset = fetch.offset if fetch.dump_seen == machine.dump.index else <uint64_t> 0
    engine.body.clear()
    is_given = engine.body.append(<const uint8_t*> &news, sizeof(UserNews))
    if is_given and news.gives_dump:
        is_given = _give_dump(&machine.dump, news.offset, &engine.body)
    elif is_given:
        is_given = users_take(machine, fetch.after, TUNE_COMMANDS_BYTES, &engine.body)
    _end(engine, submission, OK if is_given else NO_MEMORY, engine.body.data, <uint32_t> engine.body.size)
    return True


cdef void user_fetches_submit(Engine* engine, Submission* submission) noexcept nogil:
    if submission.length <= sizeof(UserFetch):
        _end(engine, submission, BAD_FIELD, NULL, 0)
    elif not _answer(engine, submission) and not engine.user_fetches.push(submission):
        _end(engine, submission, NO_MEMORY, NULL, 0)


cdef void user_last_submit(Engine* engine, Submission* submission) noexcept nogil:
    cdef UserMachine* machine = _machine_of(engine, submission, 0)
    cdef index_t last = machine.last if machine != NULL else <index_t> 0
    _end(engine, submission, OK, <const uint8_t*> &last, sizeof(index_t))


cdef void user_fetches_answer(Engine* engine) noexcept nogil:
    cdef size_t i = 0
    while i < engine.user_fetches.size:
        if _answer(engine, engine.user_fetches.data[i]):
            engine.user_fetches.data[i] = engine.user_fetches.back()
            engine.user_fetches.pop()
        else:
            i += 1


cdef void user_fetches_stop(Engine* engine) noexcept nogil:
    while engine.user_fetches.size != 0:
        _end(engine, engine.user_fetches.back(), NODE_CLOSED, NULL, 0)
        engine.user_fetches.pop()
