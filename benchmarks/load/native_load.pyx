"""Puts on a node of this process without Python, in a closed loop or at a rate: the engine alone, through the doors of
its faces.

The thread that calls run() gives the GIL away and then does what raftmeta.aio does for an event loop: encode, submit,
ring once for many, sleep on the mailbox, take a batch of answers. It must never run beside another caller of the
same node that submits commands; their sequences would mix (loop/loop.pxd loop_submit).
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from libcpp.algorithm cimport sort
from libcpp.vector cimport vector

from raftmeta.engine.submission cimport SUBMIT_COMMAND, Submission, submission_create, submission_payload
from raftmeta.face.base cimport NodeBase
from raftmeta.loop.loop cimport Loop, loop_ring, loop_submit
from raftmeta.loop.tickets cimport (Mail, Mailbox, Ticket, mailbox_abandon, mailbox_create, mailbox_take, ticket_create,
                                    ticket_drop)
from raftmeta.native.atomics cimport load_acquire, store_release
from raftmeta.native.containers cimport Vec
from raftmeta.native.threads cimport boot_now_ns
from raftmeta.status cimport NO_MEMORY, OK, status_t
from raftmeta.wire.commands cimport OP_PUT, Bytes, Op, command_encode_op

cdef extern from "<poll.h>" nogil:
    cdef struct pollfd:
        int fd
        short events
        short revents
    enum: POLLIN
    int poll(pollfd* fds, unsigned long count, int timeout_ms)

cdef enum:
    ANSWER_TIMEOUT_MS = 10_000
    PACE_MS = 1                 # how often due puts are submitted

# Shared: a thread asks the one that runs a load to end it.
cdef uint32_t is_stopped = 0

cdef struct Load:
    Loop* loop
    Mailbox* mailbox
    vector[Bytes]* keys
    vector[Bytes]* values
    Vec[uint8_t] encoded
    uint64_t outstanding        # at most
    uint64_t per_second         # 0: as soon as those before are answered
    uint64_t late               # at most so many were due and could not be submitted
    uint64_t began_ns
    uint64_t submitted
    uint64_t answered
    uint64_t counted            # answered since from_ns
    uint64_t from_ns
    uint64_t until_ns
    uint64_t ended_ns
    vector[uint64_t]* latencies_ns


cdef status_t submit_put(Load* load, uint64_t now_ns) noexcept nogil:
    cdef Op op
    cdef Submission* submission
    cdef Ticket* ticket
    cdef status_t status
    memset(&op, 0, sizeof(op))
    op.kind = OP_PUT
    op.key = load.keys[0][load.submitted % load.keys.size()]
    op.value = load.values[0][load.submitted % load.values.size()]
    load.encoded.clear()
    status = command_encode_op(&op, load_acquire(&load.loop.session), load.loop.next_sequence,
                               load_acquire(&load.loop.lowest_unanswered), NULL, &load.encoded)
    if status != OK:
        return status
    submission = submission_create(SUBMIT_COMMAND, load.encoded.size)
    ticket = ticket_create(load.mailbox, False)
    if submission == NULL or ticket == NULL:
        return NO_MEMORY
    ticket.deadline_ns = now_ns         # the owner's own field: when it began
    submission.arguments.command.session = load_acquire(&load.loop.session)
    submission.arguments.command.sequence = load.loop.next_sequence
    submission.owner = ticket
    memcpy(submission_payload(submission), load.encoded.data, load.encoded.size)
    load.loop.next_sequence += 1
    load.submitted += 1
    loop_submit(load.loop, submission)
    return OK


# The first status that is none of success.
cdef status_t take_answers(Load* load) noexcept nogil:
    cdef Mail* mail = mailbox_take(load.mailbox)
    cdef uint64_t now_ns = boot_now_ns()
    cdef status_t status = OK
    cdef Ticket* ticket
    while mail != NULL:
        ticket = <Ticket*>mail
        mail = mail.next
        if ticket.status != OK:
            status = ticket.status
        load.answered += 1
        if now_ns >= load.from_ns:
            load.counted += 1
            load.latencies_ns.push_back(now_ns - ticket.deadline_ns)
        ticket_drop(ticket)             # the engine's hold, and ours
        ticket_drop(ticket)
    load.ended_ns = now_ns
    return status


cdef status_t submit_due(Load* load, uint64_t now_ns) noexcept nogil:
    cdef uint64_t end = load.answered + load.outstanding
    cdef uint64_t due
    cdef status_t status
    if load.per_second != 0:
        due = (now_ns - load.began_ns) * load.per_second // 1_000_000_000
        if due > end:
            load.late = max(load.late, due - end)
        end = min(due, end)
    while load.submitted < end:
        status = submit_put(load, now_ns)
        if status != OK:
            return status
    loop_ring(load.loop)
    return OK


cdef status_t drive(Load* load) noexcept nogil:
    cdef uint64_t now_ns = boot_now_ns()
    cdef pollfd bell
    cdef status_t status
    bell.fd = load.mailbox.event_fd
    bell.events = POLLIN
    load.began_ns = now_ns
    while load.answered < load.submitted or now_ns < load.until_ns:
        if load_acquire(&is_stopped):
            load.until_ns = 0
        if now_ns < load.until_ns:
            status = submit_due(load, now_ns)
            if status != OK:
                return status
        bell.revents = 0
        if poll(&bell, 1, PACE_MS if load.per_second else ANSWER_TIMEOUT_MS) != 1 and load.per_second == 0:
            return -1
        status = take_answers(load)
        if status != OK:
            return status
        now_ns = boot_now_ns()
    return OK


def stop():
    """End the load that runs in this process."""
    store_release(&is_stopped, <uint32_t>1)


def run(NodeBase node not None, list keys not None, list values not None, uint64_t outstanding, double seconds,
        double warmup_s, uint64_t per_second=0):
    """count, seconds, p50_ms, p99_ms, p999_ms of puts that were answered after the warm-up; late.

    per_second: that many are offered a second, whether or not those before are answered, up to `outstanding`; late says
    how many at most were due beyond that. 0: each follows an answer.

    Raises RuntimeError with the status of the first put that did not succeed.
    """
    cdef Load load
    cdef vector[Bytes] key_windows, value_windows
    cdef vector[uint64_t] latencies_ns
    cdef status_t status
    memset(&load, 0, sizeof(load))
    windows_of(keys, &key_windows)
    windows_of(values, &value_windows)
    load.loop = node.running()
    load.mailbox = mailbox_create(True)
    if load.mailbox == NULL:
        raise MemoryError
    load.keys = &key_windows
    load.values = &value_windows
    load.latencies_ns = &latencies_ns
    load.outstanding = outstanding
    load.per_second = per_second
    store_release(&is_stopped, <uint32_t>0)
    load.from_ns = boot_now_ns() + <uint64_t>(warmup_s * 1e9)
    load.until_ns = load.from_ns + <uint64_t>(seconds * 1e9)
    with nogil:
        latencies_ns.reserve(4_000_000)
        status = drive(&load)
        sort(latencies_ns.begin(), latencies_ns.end())
    mailbox_abandon(load.mailbox)
    load.encoded.release()
    if status != OK:
        raise RuntimeError(f"a put of the native generator ended with status {status}")
    return {"count": load.counted, "seconds": (load.ended_ns - load.from_ns) / 1e9,
            "p50_ms": milliseconds(&latencies_ns, 0.5), "p99_ms": milliseconds(&latencies_ns, 0.99),
            "p999_ms": milliseconds(&latencies_ns, 0.999), "late": load.late}


# Windows into bytes objects, which the caller's list keeps alive.
cdef int windows_of(list items, vector[Bytes]* into) except -1:
    cdef Bytes window
    cdef bytes one
    for one in items:
        window.data = one
        window.length = <uint32_t>len(one)
        into.push_back(window)
    return 0


cdef double milliseconds(vector[uint64_t]* ordered_ns, double share):
    if ordered_ns.empty():
        return 0.0
    return ordered_ns[0][<size_t>(share * (ordered_ns.size() - 1))] / 1e6
