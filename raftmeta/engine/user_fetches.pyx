"""Fetches of copies: answered at once, or kept until an apply brings something for their machine.

It decides how much a copy gets at once. It must never judge a command, or remember what a copy has; the
copy says so each time, and a copy that starts again simply says less.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcmp, memset

from raftmeta.engine.state cimport Engine
from raftmeta.engine.submission cimport (SUBMIT_USER_ASK, SUBMIT_USER_FETCH, SUBMIT_USER_JOIN, Submission,
                                         UserAskArguments, submission_payload)
from raftmeta.machine.user_machines cimport UserDump, UserMachine, user_dump_is_late, users_find, users_take
from raftmeta.native.containers cimport Vec
from raftmeta.raft.types cimport index_t
from raftmeta.status cimport BAD_FIELD, NO_MEMORY, NODE_CLOSED, NOT_FOUND, OK, OVERLOADED, status_t

cdef enum:
    TUNE_COMMANDS_BYTES = 256 * 1024    # given at once
    TUNE_DUMP_BYTES = 1024 * 1024
    TUNE_ASKS_MAX = 16_384              # of clients, of all machines of this node


cdef void _end(Engine* engine, Submission* submission, status_t status, const uint8_t* body,
               uint32_t length) noexcept nogil:
    if submission.owner != NULL:
        engine.callers.done(engine.callers.self, submission.owner, status, 0, engine.applying.applied, body, length)
    free(submission)


cdef inline UserMachine* _machine_of(Engine* engine, const Submission* submission, size_t skipped) noexcept nogil:
    return users_find(&engine.machine.users, submission_payload(submission) + skipped,
                      <uint32_t>(submission.length - skipped))


# Bytes of the dump from offset on: the rest of one part, and as many whole ones as fit.
cdef bint _give_dump(const UserDump* dump, uint64_t offset, Vec[uint8_t]* out) noexcept nogil:
    cdef uint64_t passed = 0
    cdef size_t end = out.size + TUNE_DUMP_BYTES
    cdef uint64_t skipped
    cdef size_t i
    for i in range(dump.parts.size):
        if passed + dump.parts.data[i].used > offset:
            skipped = offset - passed if offset > passed else <uint64_t>0
            if not out.append(dump.parts.data[i].bytes() + skipped, dump.parts.data[i].used - skipped):
                return False
            if out.size >= end:
                return True
        passed += dump.parts.data[i].used
    return True


# --- what clients ask -------------------------------------------------------------------------------------------------
# Of a join the whole payload is the machine's name, of an ask its beginning. Fetches are not found by it.
cdef inline bint _is_named(const Submission* item, const uint8_t* name, uint32_t name_length) noexcept nogil:
    cdef uint32_t length = 0
    if item.kind == SUBMIT_USER_ASK:
        length = item.arguments.user_ask.name_length
    elif item.kind == SUBMIT_USER_JOIN:
        length = item.length
    return length == name_length and memcmp(submission_payload(item), name, name_length) == 0


cdef bint user_is_joined(Engine* engine, const uint8_t* name, uint32_t length) noexcept nogil:
    cdef size_t i
    for i in range(engine.user_fetches.size):
        if (engine.user_fetches.data[i].kind == SUBMIT_USER_JOIN
                and _is_named(engine.user_fetches.data[i], name, length)):
            return True
    return False


# Append to engine.body what clients ask of this machine and its copy was not given. False: no memory.
cdef bint _give_asks(Engine* engine, const uint8_t* name, uint32_t length) noexcept nogil:
    cdef Submission* ask
    cdef UserAskArguments* said
    cdef UserAsk head
    cdef size_t i
    for i in range(engine.user_fetches.size):
        ask = engine.user_fetches.data[i]
        said = &ask.arguments.user_ask
        if (ask.kind != SUBMIT_USER_ASK or said.is_given or engine.body.size > TUNE_COMMANDS_BYTES
                or not _is_named(ask, name, length)):
            continue
        head.id = <uint64_t><size_t>ask
        head.kind = said.ask
        head.index = said.index
        head.length = ask.length - said.name_length
        if not (engine.body.append(<const uint8_t*>&head, sizeof(UserAsk))
                and engine.body.append(submission_payload(ask) + said.name_length, head.length)):
            return False
        said.is_given = True
    return True


cdef bint _has_asks(const Engine* engine, const uint8_t* name, uint32_t length) noexcept nogil:
    cdef const Submission* ask
    cdef size_t i
    for i in range(engine.user_fetches.size):
        ask = engine.user_fetches.data[i]
        if (ask.kind == SUBMIT_USER_ASK and not ask.arguments.user_ask.is_given
                and _is_named(ask, name, length)):
            return True
    return False


# --- fetches ----------------------------------------------------------------------------------------------------------
cdef void _describe(const UserMachine* machine, const UserFetch* fetch, UserNews* news) noexcept nogil:
    memset(news, 0, sizeof(UserNews))
    if machine == NULL:
        return                  # nobody has sent it a command yet
    news.gives_dump = fetch.after < machine.dump.index
    news.last = machine.last
    news.point = machine.point
    news.is_late = user_dump_is_late(machine)
    news.dump_index = machine.dump.index
    news.dump_digest = machine.dump.digest
    news.dump_total = machine.dump.total
    # Another dump than the copy was being given: from its beginning.
    news.offset = fetch.offset if fetch.dump_seen == machine.dump.index else <uint64_t>0


# False: there is nothing for it yet.
cdef bint _answer(Engine* engine, Submission* submission) noexcept nogil:
    cdef const UserFetch* fetch = <const UserFetch*>submission_payload(submission)
    cdef const uint8_t* name = submission_payload(submission) + sizeof(UserFetch)
    cdef uint32_t name_length = submission.length - <uint32_t>sizeof(UserFetch)
    cdef UserMachine* machine = _machine_of(engine, submission, sizeof(UserFetch))
    cdef bint is_behind = machine != NULL and (fetch.after < machine.last or fetch.dump_seen != machine.dump.index)
    cdef UserNews news
    cdef bint is_given
    if not is_behind and not _has_asks(engine, name, name_length):
        return False
    _describe(machine, fetch, &news)
    engine.body.clear()
    is_given = (engine.body.append(<const uint8_t*>&news, sizeof(UserNews))
                and _give_asks(engine, name, name_length))
    if is_given:
        (<UserNews*>engine.body.data).ask_bytes = engine.body.size - sizeof(UserNews)
    if is_given and news.gives_dump:
        is_given = _give_dump(&machine.dump, news.offset, &engine.body)
    elif is_given and machine != NULL:
        is_given = users_take(machine, fetch.after, TUNE_COMMANDS_BYTES, &engine.body)
    _end(engine, submission, OK if is_given else NO_MEMORY, engine.body.data, <uint32_t>engine.body.size)
    return True


cdef void user_fetches_submit(Engine* engine, Submission* submission) noexcept nogil:
    if submission.length <= sizeof(UserFetch):
        _end(engine, submission, BAD_FIELD, NULL, 0)
    elif not _answer(engine, submission) and not engine.user_fetches.push(submission):
        _end(engine, submission, NO_MEMORY, NULL, 0)


cdef void user_last_submit(Engine* engine, Submission* submission) noexcept nogil:
    cdef UserMachine* machine = _machine_of(engine, submission, 0)
    cdef index_t last = machine.last if machine != NULL else <index_t>0
    _end(engine, submission, OK, <const uint8_t*>&last, sizeof(index_t))


cdef void _forget(Engine* engine, size_t position) noexcept nogil:
    engine.user_fetches.data[position] = engine.user_fetches.back()
    engine.user_fetches.pop()


cdef void user_fetches_answer(Engine* engine) noexcept nogil:
    cdef size_t i = 0
    while i < engine.user_fetches.size:
        if engine.user_fetches.data[i].kind == SUBMIT_USER_FETCH and _answer(engine, engine.user_fetches.data[i]):
            _forget(engine, i)
        else:
            i += 1


# --- asks that come, and their answers --------------------------------------------------------------------------------
cdef void user_ask_submit(Engine* engine, Submission* ask) noexcept nogil:
    cdef UserAskArguments* said = &ask.arguments.user_ask
    cdef const uint8_t* name = submission_payload(ask)
    cdef UserMachine* machine = users_find(&engine.machine.users, name, said.name_length)
    if not user_is_joined(engine, name, said.name_length):
        _end(engine, ask, NOT_FOUND, NULL, 0)
        return
    if engine.user_fetches.size >= TUNE_ASKS_MAX:
        _end(engine, ask, OVERLOADED, NULL, 0)
        return
    if said.ask != ASK_OUTCOME:
        said.index = machine.last if said.ask == ASK_READ and machine != NULL else 0
    if engine.user_fetches.push(ask):
        user_fetches_answer(engine)
    else:
        _end(engine, ask, NO_MEMORY, NULL, 0)


cdef void user_answer_submit(Engine* engine, Submission* answer) noexcept nogil:
    cdef Submission* ask
    cdef size_t i
    for i in range(engine.user_fetches.size):
        ask = engine.user_fetches.data[i]
        if ask.kind == SUBMIT_USER_ASK and <uint64_t><size_t>ask == answer.arguments.user_answer.ask:
            _forget(engine, i)
            _end(engine, ask, <status_t>answer.arguments.user_answer.status, submission_payload(answer),
                 answer.length)
            break
    free(answer)


cdef void user_join_submit(Engine* engine, Submission* join) noexcept nogil:
    if not engine.user_fetches.push(join):
        _end(engine, join, NO_MEMORY, NULL, 0)


cdef void user_leave_submit(Engine* engine, Submission* leave) noexcept nogil:
    cdef Submission* item
    cdef size_t i = 0
    while i < engine.user_fetches.size:
        item = engine.user_fetches.data[i]
        if _is_named(item, submission_payload(leave), leave.length):
            _forget(engine, i)
            _end(engine, item, NOT_FOUND, NULL, 0)
        else:
            i += 1
    free(leave)


cdef void user_fetches_stop(Engine* engine) noexcept nogil:
    while engine.user_fetches.size != 0:
        _end(engine, engine.user_fetches.back(), NODE_CLOSED, NULL, 0)
        engine.user_fetches.pop()
