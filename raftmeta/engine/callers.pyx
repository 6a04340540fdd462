"""Commands and reads that callers of this node wait for.

A command has the sequence number of its session from the moment it is encoded. It stays in a CommandQueue from
submission until its own entry is applied on *this* node; then its caller gets the result and everything below the first
unanswered sequence is forgotten. A command that may have been lost on the way (a leader died, a forward broke) is
proposed again under the same number, and the session table of the replicated machine makes that exactly once
(paper 8, thesis 6.3).

There are two queues: `own` holds commands of this node's session, whose sequences are dense, so that an answer finds
its command by subtraction; `clients` holds those of clients, each in a session of its own, found by the hash of session
and sequence. A client may send one command twice, through two connections: both copies are proposed and both answered.

Why a refusal can still mean "not executed": a command that was handed to *one* leader only and that this leader
refused certainly stands in no log, because a leader looks at each proposal once, however often the network brings it
(engine/peers). One that was handed over twice may stand in the first leader's log; it goes on waiting and is proposed
until it is answered.

It must never decide a command's result, wait, or drop a claimed command without an answer.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset

from raftmeta._core cimport (CLOCK_JUMPED, LEADER, ProposalRefused, ReadReady, core_peer_event, core_propose,
                             core_read_index, core_set_time)
from raftmeta.engine.state cimport (ASKED_STEP_MAX, Answer, OUTSTANDING_DONE, OUTSTANDING_PROPOSED, OUTSTANDING_QUEUED,
                                    Calls, CommandQueue, Engine, Outstanding, ReadRound, Reads)
from raftmeta.engine.submission cimport CommandArguments, Submission, submission_payload
from raftmeta.engine.invariants cimport BROKEN_ANSWERED_TWICE, BROKEN_READERS_GONE
from raftmeta.machine.machine cimport (ApplyResult, machine_has_rights, machine_session_has_process,
                                       machine_session_is_owned, machine_session_result)
from raftmeta.machine.state cimport LEVEL_OF_PROCESSES
from raftmeta.native.buggify cimport BUGGIFY_BATCH_OF_ONE, BUGGIFY_READS_ASKED_AGAIN, BUGGIFY_READS_POSTPONED, buggify
from raftmeta.native.chunks cimport Slice
from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport hash64
from raftmeta.native.invariants cimport broken
from raftmeta.native.marks cimport (MARK_ANSWERED_BY_INSTALL, MARK_COMMAND_PROPOSED, MARK_PROPOSED_AGAIN,
                                    MARK_READ_ROUND_VOID, MARK_REFUSED_AND_IN_DOUBT, MARK_REFUSED_AND_QUEUED,
                                    MARK_SECOND_COPY_APPLIED, mark)
from raftmeta.status cimport (NO_LEADER, NO_MEMORY, NODE_CLOSED, NOT_READY, OK, OUT_OF_ORDER, OUTCOME_UNKNOWN,
                              OVERLOADED, RESULT_EVICTED, WITHDRAWN, is_fatal, status_t)
from raftmeta.wire.msgpack cimport Reader, read_array, read_uint, reader_over

cdef enum:
    TUNE_PROPOSE_COUNT_MAX = 4096   # commands handed to the core at once
    TUNE_READ_TIMEOUTS = 16         # election time-outs for which one leader is asked in one term: its reads end then
    RESULT_ELEMENTS = 3             # docs/formats.md "Results"
    RESULT_STATUS_MAX = 63


cdef void _complete(Engine* engine, Outstanding* at, status_t status, uint64_t revision, uint64_t index,
                    const uint8_t* body, uint32_t length) noexcept nogil:
    if at.state == OUTSTANDING_DONE:
        broken(&engine.promises.broken, BROKEN_ANSWERED_TWICE, revision, status)
        return
    _complete_waiting(engine, at, status, revision, index, body, length)


# One of which the caller has seen that it is not DONE.
cdef inline void _complete_waiting(Engine* engine, Outstanding* at, status_t status, uint64_t revision, uint64_t index,
                                   const uint8_t* body, uint32_t length) noexcept nogil:
    if at.submission.owner != NULL:
        engine.callers.done(engine.callers.self, at.submission.owner, status, revision, index, body, length)
    free(at.submission)
    at.submission = NULL
    at.state = OUTSTANDING_DONE
    engine.counters.commands_completed += 1


cdef void _forget_answered(Calls* calls, CommandQueue* queue) noexcept nogil:
    cdef uint64_t* newest
    while queue.commands.size != 0 and queue.commands.front().state == OUTSTANDING_DONE:
        if queue.commands.front().name != 0:
            newest = calls.clients_by_name.find(queue.commands.front().name)
            if newest != NULL and newest[0] == queue.base:
                calls.clients_by_name.erase(queue.commands.front().name)
        queue.commands.pop_front()
        queue.base += 1
        if queue.next_queued != 0:
            queue.next_queued -= 1


# Answer a submission that never became outstanding.
cdef void _reject(Engine* engine, Submission* submission, status_t status) noexcept nogil:
    if submission.owner != NULL:
        engine.callers.done(engine.callers.self, submission.owner, status, 0, 0, NULL, 0)
    free(submission)


cdef bint _enqueue(CommandQueue* queue, Submission* submission) noexcept nogil:
    cdef Outstanding item
    # Field by field: so it stays in registers until it stands in the queue.
    item.submission = submission
    item.state = OUTSTANDING_QUEUED
    item.was_claimed = 0
    item.proposals = 0
    item.context = 0
    item.proposed_tick = 0
    item.name = 0
    item.earlier = 0
    return queue.commands.push(item)


cdef void callers_submit(Engine* engine, Submission* submission) noexcept nogil:
    cdef CommandQueue* own = &engine.calls.own
    if own.commands.size == 0:
        own.base = submission.arguments.command.sequence
        own.next_queued = 0
    if not _enqueue(own, submission):
        _reject(engine, submission, OVERLOADED)
        return
    if engine.session.id == 0 or submission.arguments.command.session != engine.session.id:
        _complete(engine, &own.commands.back(), NOT_READY, 0, 0, NULL, 0)
        _forget_answered(&engine.calls, own)
    elif own.commands.size > engine.config.outstanding_max and not submission.arguments.command.is_urgent:
        _complete(engine, &own.commands.back(), OVERLOADED, 0, 0, NULL, 0)
        _forget_answered(&engine.calls, own)


# --- commands of clients ----------------------------------------------------------------------------------------------
cdef inline uint64_t _name(uint64_t session, uint64_t sequence) noexcept nogil:
    return hash64(sequence, &session, sizeof(uint64_t)) | 1


cdef void callers_submit_client(Engine* engine, Submission* submission) noexcept nogil:
    cdef CommandQueue* clients = &engine.calls.clients
    cdef const CommandArguments* command = &submission.arguments.command
    cdef uint64_t name = _name(command.session, command.sequence)
    cdef uint64_t* newest
    if clients.commands.size >= engine.config.outstanding_max and not command.is_urgent:
        _reject(engine, submission, OVERLOADED)
        return
    if clients.commands.size == 0:
        clients.base = max(clients.base, <uint64_t>1)
        clients.next_queued = 0
    newest = engine.calls.clients_by_name.insert(name)
    if newest == NULL or not _enqueue(clients, submission):
        _reject(engine, submission, OVERLOADED)
        return
    clients.commands.back().name = name
    clients.commands.back().earlier = newest[0]
    newest[0] = clients.base + clients.commands.size - 1


cdef bint callers_await(Calls* calls, uint64_t session, uint64_t sequence) noexcept nogil:
    return calls.clients.commands.size != 0 and calls.clients_by_name.find(_name(session, sequence)) != NULL


cdef inline bint _is_of(const Submission* submission, const Answer* answer) noexcept nogil:
    return (submission.arguments.command.session == answer.session
            and submission.arguments.command.sequence == answer.sequence)


# Every copy of the command that waits here.
cdef void _answer_client(Engine* engine, const Answer* answer) noexcept nogil:
    cdef uint64_t* newest = engine.calls.clients_by_name.find(_name(answer.session, answer.sequence))
    cdef uint64_t number = newest[0] if newest != NULL else 0
    cdef Outstanding* at
    while number != 0 and number >= engine.calls.clients.base:
        at = &engine.calls.clients.commands.at(number - engine.calls.clients.base)
        number = at.earlier
        if at.state != OUTSTANDING_DONE and _is_of(at.submission, answer):
            _complete(engine, at, answer.status, answer.revision, answer.index,
                      engine.calls.answer_bytes.data + answer.offset, answer.length)
    _forget_answered(&engine.calls, &engine.calls.clients)


# --- proposing --------------------------------------------------------------------------------------------------------
# Before the first proposal the caller may still withdraw; afterwards it waits or learns OutcomeUnknown.
cdef bint _claim(Engine* engine, Outstanding* at) noexcept nogil:
    if at.was_claimed:
        return True
    if at.submission.owner != NULL and not engine.callers.claim(engine.callers.self, at.submission.owner):
        _complete(engine, at, WITHDRAWN, 0, 0, NULL, 0)
        return False
    at.was_claimed = True
    return True


cdef uint64_t callers_next_batch(Calls* calls) noexcept nogil:
    calls.next_batch += 1
    return calls.next_batch


# Collect queued commands of one urgency from position first on; return the position after the last looked at.
cdef size_t _gather(Engine* engine, CommandQueue* queue, size_t first, Vec[Slice]* payloads,
                    bint* is_urgent) noexcept nogil:
    cdef size_t position = first
    cdef uint64_t total = 0
    cdef size_t count_max = 1 if buggify(BUGGIFY_BATCH_OF_ONE) else TUNE_PROPOSE_COUNT_MAX
    cdef Outstanding* at
    cdef Slice payload
    payloads.clear()
    while position < queue.commands.size and payloads.size < count_max:
        at = &queue.commands.at(position)
        if at.state == OUTSTANDING_QUEUED:
            if payloads.size != 0 and (at.submission.arguments.command.is_urgent != is_urgent[0]
                                       or total + at.submission.length > engine.config.propose_bytes_max):
                break
            if _claim(engine, at):
                payload.chunk = NULL
                payload.data = submission_payload(at.submission)
                payload.length = at.submission.length
                if not payloads.push(payload):
                    break
                is_urgent[0] = at.submission.arguments.command.is_urgent
                total += payload.length
                at.context = engine.calls.next_batch
        position += 1
    return position


# Record what the core said to the batch that was gathered from [first, end).
cdef void _mark_batch(Engine* engine, CommandQueue* queue, size_t first, size_t end, status_t status) noexcept nogil:
    cdef size_t position
    cdef Outstanding* at
    for position in range(first, end):
        at = &queue.commands.at(position)
        if at.state != OUTSTANDING_QUEUED or at.context != engine.calls.next_batch:
            continue
        if status == OK:
            mark(MARK_COMMAND_PROPOSED)
            at.state = OUTSTANDING_PROPOSED
            at.proposals += 1
            engine.counters.proposals += 1
            at.proposed_tick = engine.ticks
        elif at.proposals == 0:
            _complete(engine, at, status, 0, 0, NULL, 0)
        else:
            mark(MARK_REFUSED_AND_IN_DOUBT)
            queue.has_refused = True


cdef status_t _propose_queue(Engine* engine, CommandQueue* queue) noexcept nogil:
    cdef Vec[Slice]* payloads = &engine.calls.payloads
    cdef bint is_urgent = False
    cdef size_t first, end
    cdef status_t status
    while queue.next_queued < queue.commands.size:
        first = queue.next_queued
        callers_next_batch(&engine.calls)
        end = _gather(engine, queue, first, payloads, &is_urgent)
        if payloads.size == 0:
            if end == first:
                return NO_MEMORY
            queue.next_queued = end
            continue
        status = core_propose(engine.core, payloads.data, <uint32_t>payloads.size, engine.calls.next_batch, is_urgent,
                              engine.core_status.role != LEADER)
        if is_fatal(status):
            return status
        if status == NO_LEADER or status == NOT_READY:
            break       # stays queued: a leader will be known again, or the callers withdraw
        _mark_batch(engine, queue, first, end, status)
        queue.next_queued = end
    _forget_answered(&engine.calls, queue)
    return OK


cdef bint callers_name_process(const Engine* engine) noexcept nogil:
    return engine.config.names_process and engine.machine.feature_level >= LEVEL_OF_PROCESSES


# Why commands wait until the state knows whose the session is. How a lease would outlive its process:
#     1. the session was opened before this node knew of the level of processes, so nothing names its process,
#     2. a lease is granted in it: nobody is known to keep that lease before its next keep-alive, a quarter of its time,
#     3. the process dies, and its end finds neither the session nor the lease.
# And once rights are configured, commands of a session that is not the node's own would be refused.
cdef bint callers_may_speak(const Engine* engine) noexcept nogil:
    if callers_name_process(engine) and not machine_session_has_process(engine.machine, engine.session.id):
        return False
    return not machine_has_rights(engine.machine) or machine_session_is_owned(engine.machine, engine.session.id)


cdef status_t callers_propose(Engine* engine) noexcept nogil:
    cdef status_t status = OK
    if engine.core_status.target == 0:
        return OK
    if engine.calls.proposed_to != engine.core_status.target or engine.calls.proposed_term != engine.core_status.term:
        engine.calls.proposed_to = engine.core_status.target
        engine.calls.proposed_term = engine.core_status.term
        # The command that opens the session, or says whose it is, is made anew at the next tick
        # (engine/housekeeping). Own commands wait for it.
        engine.session.opening_tick = engine.ticks - engine.config.core.election_timeout_ticks
        callers_propose_again(engine)
    if engine.session.id != 0 and callers_may_speak(engine):
        status = _propose_queue(engine, &engine.calls.own)
    return status if status != OK else _propose_queue(engine, &engine.calls.clients)


cdef void _queue_again(Engine* engine, CommandQueue* queue) noexcept nogil:
    cdef size_t position
    cdef Outstanding* at
    for position in range(queue.commands.size):
        at = &queue.commands.at(position)
        if at.state == OUTSTANDING_PROPOSED:
            mark(MARK_PROPOSED_AGAIN)
            at.state = OUTSTANDING_QUEUED
            engine.counters.proposals_repeated += 1
    queue.next_queued = 0


cdef void callers_propose_again(Engine* engine) noexcept nogil:
    _queue_again(engine, &engine.calls.own)
    _queue_again(engine, &engine.calls.clients)


# A new run of contexts, out of reach of one that was made up (engine/peers _was_asked).
cdef void callers_leap(Calls* calls) noexcept nogil:
    calls.next_batch += ASKED_STEP_MAX + 1


cdef inline bint _waits_long(const Engine* engine, CommandQueue* queue) noexcept nogil:
    return (queue.commands.size != 0 and queue.commands.front().state == OUTSTANDING_PROPOSED
            and engine.ticks - queue.commands.front().proposed_tick >= engine.config.core.election_timeout_ticks)


cdef void callers_propose_lost(Engine* engine) noexcept nogil:
    if _waits_long(engine, &engine.calls.own) or _waits_long(engine, &engine.calls.clients):
        callers_leap(&engine.calls)
    callers_propose_again(engine)


# How a command would wait for ever:
#     1. it is forwarded, and its leader falls; nobody knows whether it is in the log,
#     2. this node leads, proposes it again, and its own core refuses it, because the disk has no room for growth,
#     3. it cannot be answered "certainly not executed", so it stays; and its queue never looks at it again.
cdef void _try_refused(CommandQueue* queue) noexcept nogil:
    if queue.has_refused:
        queue.has_refused = False
        queue.next_queued = 0


cdef void callers_try_refused(Calls* calls) noexcept nogil:
    _try_refused(&calls.own)
    _try_refused(&calls.clients)


# How a refusal would be answered at once, as fast as the network takes it:
#     1. a leader removes this node, and its last entry of that change waits for a majority; or it hands over to one
#        that is dead, and takes no proposal for an election time-out,
#     2. it refuses what this node forwards, and this node proposes it again, to the same leader,
#     3. and so on: all of a processor at both, and of the network between them.
# So a command that was sent back waits for the next tick, or for another leader or term.
cdef void _try_sent_back(CommandQueue* queue) noexcept nogil:
    if queue.was_sent_back:
        queue.was_sent_back = False
        queue.next_queued = 0


cdef void callers_try_sent_back(Calls* calls) noexcept nogil:
    _try_sent_back(&calls.own)
    _try_sent_back(&calls.clients)


cdef void _refused(Engine* engine, CommandQueue* queue, const ProposalRefused* refusal) noexcept nogil:
    cdef size_t position
    cdef Outstanding* at
    for position in range(queue.commands.size):
        at = &queue.commands.at(position)
        if at.state != OUTSTANDING_PROPOSED or at.context != refusal.context:
            continue
        if at.proposals == 1 and refusal.status != NO_LEADER and refusal.status != NOT_READY:
            _complete(engine, at, refusal.status, 0, 0, NULL, 0)
            continue
        mark(MARK_REFUSED_AND_QUEUED)
        at.proposals -= 1           # that leader certainly did not append it
        at.state = OUTSTANDING_QUEUED
        queue.was_sent_back = True
    _forget_answered(&engine.calls, queue)


cdef void callers_refused(Engine* engine, const ProposalRefused* refusal) noexcept nogil:
    _refused(engine, &engine.calls.own, refusal)
    _refused(engine, &engine.calls.clients, refusal)


# --- answers ----------------------------------------------------------------------------------------------------------
cdef status_t callers_applied(Engine* engine, const ApplyResult* result) noexcept nogil:
    cdef Answer answer
    answer.session = result.session if result.session != engine.session.id else 0
    answer.sequence = result.sequence
    answer.status = result.status
    answer.revision = result.revision
    answer.index = result.index
    answer.offset = engine.calls.answer_bytes.size
    answer.length = result.length
    if not engine.calls.answer_bytes.append(result.body, result.length) or not engine.calls.answers.push(answer):
        return NO_MEMORY
    return OK


cdef void _answer_own(Engine* engine, const Answer* answer) noexcept nogil:
    cdef uint64_t position = answer.sequence - engine.calls.own.base
    cdef Outstanding* at
    if answer.sequence < engine.calls.own.base or position >= engine.calls.own.commands.size:
        mark(MARK_SECOND_COPY_APPLIED)
        return          # answered before: this is a second copy in the log
    at = &engine.calls.own.commands.at(position)
    if at.state == OUTSTANDING_DONE:
        return
    # It came into the log before the command that it names. Nothing was done and nothing is kept, so the same one goes
    # again at the next tick. Its sequence stays open: the commands that name this one must not be taken for answered.
    if answer.status == OUT_OF_ORDER:
        at.state = OUTSTANDING_QUEUED
        engine.calls.own.was_sent_back = True
        return
    _complete_waiting(engine, at, answer.status, answer.revision, answer.index,
                      engine.calls.answer_bytes.data + answer.offset, answer.length)
    if position == 0:
        _forget_answered(&engine.calls, &engine.calls.own)


cdef void callers_answer(Engine* engine) noexcept nogil:
    cdef size_t i
    for i in range(engine.calls.answers.size):
        if engine.calls.answers.data[i].session == 0:
            _answer_own(engine, &engine.calls.answers.data[i])
        else:
            _answer_client(engine, &engine.calls.answers.data[i])
    engine.calls.answers.clear()
    engine.calls.answer_bytes.clear()


cdef void _answer_from_session(Engine* engine, Outstanding* at) noexcept nogil:
    cdef const uint8_t* body = NULL
    cdef uint32_t length = 0
    cdef uint64_t revision = 0
    cdef Reader reader
    cdef const CommandArguments* command = &at.submission.arguments.command
    cdef status_t status = machine_session_result(engine.machine, command.session, command.sequence, &body, &length,
                                                  &revision)
    if status == OK:
        reader = reader_over(body, length)
        read_array(&reader, RESULT_ELEMENTS)
        status = <status_t>read_uint(&reader, RESULT_STATUS_MAX)
        mark(MARK_ANSWERED_BY_INSTALL)
        _complete(engine, at, status, revision, engine.applying.applied, body, length)
    elif status == RESULT_EVICTED:
        _complete(engine, at, OUTCOME_UNKNOWN, 0, 0, NULL, 0)       # applied, but nobody remembers how it ended


cdef void _answer_queue_from_sessions(Engine* engine, CommandQueue* queue) noexcept nogil:
    cdef size_t position
    cdef Outstanding* at
    for position in range(queue.commands.size):
        at = &queue.commands.at(position)
        if at.state != OUTSTANDING_DONE and at.proposals != 0:
            _answer_from_session(engine, at)
    _forget_answered(&engine.calls, queue)


cdef void callers_installed(Engine* engine) noexcept nogil:
    _answer_queue_from_sessions(engine, &engine.calls.own)
    _answer_queue_from_sessions(engine, &engine.calls.clients)


cdef void callers_measure_gap(Engine* engine) noexcept nogil:
    cdef Calls* calls = &engine.calls
    cdef uint64_t completed = engine.counters.commands_completed
    cdef bint was_waiting = calls.answered_count != ~<uint64_t>0
    cdef bint is_answered = was_waiting and calls.answered_count != completed
    if was_waiting:
        engine.counters.commit_gap_ns_max = max(engine.counters.commit_gap_ns_max, engine.now_ns - calls.answered_ns)
    if is_answered or not was_waiting:
        calls.answered_ns = engine.now_ns
    calls.answered_count = completed if calls.own.commands.size != 0 else ~<uint64_t>0


cdef void callers_session_lost(Engine* engine) noexcept nogil:
    _end_queue(engine, &engine.calls.own, NOT_READY)


cdef void _end_queue(Engine* engine, CommandQueue* queue, status_t not_executed) noexcept nogil:
    cdef size_t position
    cdef Outstanding* at
    for position in range(queue.commands.size):
        at = &queue.commands.at(position)
        if at.state != OUTSTANDING_DONE:
            _complete(engine, at, OUTCOME_UNKNOWN if at.proposals != 0 else not_executed, 0, 0, NULL, 0)
    _forget_answered(&engine.calls, queue)


# --- reads ------------------------------------------------------------------------------------------------------------
# The core counts ticks, and a lease ends at a tick (docs/divergence.md "Reads").
#
# How a read was stale without this: 1. a leader was paused for less than an election time-out, 2. another member was
# elected and took a write, 3. the leader went on, and a read came before its turn, 4. by the ticks counted so far,
# the lease held. One tick may be due: the core's margin has it (raft/rounds).
cdef status_t callers_doubt_lease(Engine* engine) noexcept nogil:
    cdef uint64_t tick_ns = <uint64_t>engine.config.tick_ms * 1_000_000
    cdef uint64_t now_ns
    if not engine.config.core.lease_reads:
        return OK
    now_ns = engine.clock.now_ns(engine.clock.self)
    if now_ns < engine.next_tick_ns + tick_ns:
        return OK
    core_set_time(engine.core, now_ns)
    return core_peer_event(engine.core, CLOCK_JUMPED, 0)


cdef void callers_read(Engine* engine, Submission* submission) noexcept nogil:
    if engine.reads.waiting.push(submission.owner):
        free(submission)
    else:
        _reject(engine, submission, OVERLOADED)


# All reads that came since the last turn share one round: its index is at least the commit index at this moment,
# which is after every one of them was invoked (thesis 6.4).
cdef status_t callers_ask_reads(Engine* engine) noexcept nogil:
    cdef ReadRound fresh
    cdef size_t i
    cdef status_t status
    if engine.reads.waiting.size == 0 or engine.core_status.target == 0 or buggify(BUGGIFY_READS_POSTPONED):
        return OK
    status = callers_doubt_lease(engine)
    if status != OK:
        return status
    engine.reads.next_context += 1
    status = core_read_index(engine.core, engine.reads.next_context)
    if status != OK:
        return status if is_fatal(status) else OK       # not yet: they go on waiting
    memset(&fresh, 0, sizeof(ReadRound))
    fresh.context = fresh.first_context = engine.reads.next_context
    fresh.count = <uint32_t>engine.reads.waiting.size
    fresh.asked_tick = engine.ticks
    _name_leader(engine, &fresh)
    for i in range(engine.reads.waiting.size):
        if not engine.reads.owners.push(engine.reads.waiting.data[i]):
            return NO_MEMORY
    if not engine.reads.rounds.push(fresh):
        return NO_MEMORY
    engine.reads.waiting.clear()
    return OK


cdef void _name_leader(const Engine* engine, ReadRound* round) noexcept nogil:
    round.leader = engine.core_status.target
    round.term = engine.core_status.term
    round.since_ns = engine.now_ns


# A new context for a round that got no answer; an old context is never used twice (docs/divergence.md "Reads").
#
# The answer to its first context still counts: it too was asked for after all of these reads were. How reads came to
# no end without that: 1. turns came so late that an answer took longer than an election time-out; 2. each time the
# round was asked for anew before the answer came, and the answer was to a context that nobody knew any more.
cdef status_t _ask_again(Engine* engine, ReadRound* round) noexcept nogil:
    cdef status_t status = callers_doubt_lease(engine)
    if status != OK:
        return status
    engine.reads.next_context += 1
    status = core_read_index(engine.core, engine.reads.next_context)
    if status != OK:
        return status
    if round.leader != engine.core_status.target or round.term != engine.core_status.term:
        _name_leader(engine, round)
    if round.context == 0:
        round.first_context = engine.reads.next_context
    round.context = engine.reads.next_context
    round.asked_tick = engine.ticks
    return OK


cdef void callers_read_ready(Reads* reads, const ReadReady* ready) noexcept nogil:
    cdef size_t position
    cdef ReadRound* round
    for position in range(reads.rounds.size):
        round = &reads.rounds.at(position)
        if ready.context != round.context and ready.context != round.first_context:
            continue
        if ready.status == OK:
            # Each answer was asked for after all of these reads were, so the lowest is enough.
            round.index = min(round.index, ready.index) if round.is_answered else ready.index
            round.is_answered = True
        elif not round.is_answered:
            mark(MARK_READ_ROUND_VOID)
            round.context = round.first_context = 0         # void: callers_repeat_reads asks again
        return


cdef void callers_serve_reads(Engine* engine) noexcept nogil:
    cdef ReadRound* round
    while engine.reads.rounds.size != 0:
        round = &engine.reads.rounds.front()
        if not round.is_answered and _is_hopeless(engine, round):
            _end_round(engine, NO_LEADER)
            continue
        if not round.is_answered or round.index > engine.applying.published:
            return
        engine.counters.reads_served += round.count
        _end_round(engine, OK)


# A leader is there and answers no round: turns, here or there, come so late that each counts as a clock jump,
# which voids what is under way. Counted by the clock, since ticks that are missed are not made up for.
cdef bint _is_hopeless(const Engine* engine, const ReadRound* round) noexcept nogil:
    cdef uint64_t timeout_ns = <uint64_t>engine.config.core.election_timeout_ticks * engine.config.tick_ms * 1_000_000
    return (round.leader == engine.core_status.target and round.term == engine.core_status.term
            and engine.now_ns - round.since_ns > TUNE_READ_TIMEOUTS * timeout_ns)


# The oldest one, with all its readers.
cdef void _end_round(Engine* engine, status_t status) noexcept nogil:
    cdef ReadRound round = engine.reads.rounds.front()
    cdef uint64_t index = round.index if status == OK else engine.applying.applied
    if round.count > engine.reads.owners.size:
        broken(&engine.promises.broken, BROKEN_READERS_GONE, round.count, engine.reads.owners.size)
        round.count = <uint32_t>engine.reads.owners.size
    for _ in range(round.count):
        engine.callers.done(engine.callers.self, engine.reads.owners.front(), status, 0, index, NULL, 0)
        engine.reads.owners.pop_front()
    engine.reads.rounds.pop_front()


# An answer, too, is asked for again while this node does not even know the entries up to its index to be committed.
# How a false index held up all reads of a node until it was started anew:
#     1. a leader whose memory is damaged, or that lies, answers a round with an index far beyond its log,
#     2. another member leads, and its log never gets that far,
#     3. rounds are served in order, and this one is never served.
cdef void callers_repeat_reads(Engine* engine) noexcept nogil:
    cdef size_t position
    cdef ReadRound* round
    for position in range(engine.reads.rounds.size):
        round = &engine.reads.rounds.at(position)
        if engine.core_status.target == 0:
            round.since_ns = engine.now_ns      # nobody is asked
            continue
        if round.is_answered and round.index <= engine.applying.queued:
            continue            # it is served as soon as that is applied
        if (round.context == 0 or engine.ticks - round.asked_tick >= engine.config.core.election_timeout_ticks
                or buggify(BUGGIFY_READS_ASKED_AGAIN)):
            if _ask_again(engine, round) != OK:
                return


# --- the end ----------------------------------------------------------------------------------------------------------
cdef void _end_all(Engine* engine, status_t not_executed) noexcept nogil:
    cdef size_t i
    _end_queue(engine, &engine.calls.own, not_executed)
    _end_queue(engine, &engine.calls.clients, not_executed)
    for i in range(engine.reads.owners.size):
        engine.callers.done(engine.callers.self, engine.reads.owners.at(i), not_executed, 0, 0, NULL, 0)
    engine.reads.owners.clear()
    engine.reads.rounds.clear()
    for i in range(engine.reads.waiting.size):
        engine.callers.done(engine.callers.self, engine.reads.waiting.data[i], not_executed, 0, 0, NULL, 0)
    engine.reads.waiting.clear()


cdef void callers_removed(Engine* engine) noexcept nogil:
    _end_all(engine, NOT_READY)


cdef void callers_stop(Engine* engine) noexcept nogil:
    _end_all(engine, NODE_CLOSED)


cdef void callers_release(Calls* calls, Reads* reads) noexcept nogil:
    calls.payloads.release()
    calls.answers.release()
    calls.answer_bytes.release()
    calls.own.commands.release()
    calls.clients.commands.release()
    calls.clients_by_name.release()
    reads.owners.release()
    reads.waiting.release()
    reads.rounds.release()
