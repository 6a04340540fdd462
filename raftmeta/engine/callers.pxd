# The waits of this node's callers: commands until their entry is applied here, reads until a read index is applied.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta._core cimport ProposalRefused, ReadReady
from raftmeta.engine.state cimport Calls, Engine, Reads
from raftmeta.engine.submission cimport Submission
from raftmeta.machine.machine cimport ApplyResult
from raftmeta.status cimport status_t

cdef void callers_submit(Engine* engine, Submission* submission) noexcept nogil
# A command in a client's own session.
cdef void callers_submit_client(Engine* engine, Submission* submission) noexcept nogil
# The name of the next batch handed to the core, and of a change of members that a caller asked for: refusals name it.
cdef uint64_t callers_next_batch(Calls* calls) noexcept nogil
# Whether this node's session names its process, so that it and its leases end with the process (engine/deaths).
cdef bint callers_name_process(const Engine* engine) noexcept nogil
# Whether the state knows whose this node's session is. Own commands wait until it does.
cdef bint callers_may_speak(const Engine* engine) noexcept nogil
# Hand queued commands to the core, as many as it takes.
cdef status_t callers_propose(Engine* engine) noexcept nogil
# The leader or its term changed, or a forwarded command was silent too long: propose again what is not answered.
cdef void callers_propose_again(Engine* engine) noexcept nogil
# The same once in a while, without such a reason: what waits so long may have been taken for a request of long ago.
cdef void callers_propose_lost(Engine* engine) noexcept nogil
# The names of batches go on far above those so far.
cdef void callers_leap(Calls* calls) noexcept nogil
# Once per election time-out: propose again what the core refused and what may be in the log all the same.
cdef void callers_try_refused(Calls* calls) noexcept nogil
# With each tick: propose again what a leader refused since the last one.
cdef void callers_try_sent_back(Calls* calls) noexcept nogil
cdef void callers_refused(Engine* engine, const ProposalRefused* refusal) noexcept nogil
# Whether a client of this node waits for the answer of (session, sequence).
cdef bint callers_await(Calls* calls, uint64_t session, uint64_t sequence) noexcept nogil
# An entry of this node's session, or one that a client waits for, was applied; its caller is told by callers_answer,
# when the state is published.
cdef status_t callers_applied(Engine* engine, const ApplyResult* result) noexcept nogil
cdef void callers_answer(Engine* engine) noexcept nogil
# Another state took the place of ours: what its sessions answered is answered here, too.
cdef void callers_installed(Engine* engine) noexcept nogil
# Once a turn: how long own commands wait without an answer to any, which a stall of the others would show as.
cdef void callers_measure_gap(Engine* engine) noexcept nogil
# This node's session is gone: what was proposed may have been applied, what was not certainly was not.
cdef void callers_session_lost(Engine* engine) noexcept nogil
# Before a read is asked of the core: with lease_reads, a core whose ticks are behind the clock forgets its lease.
cdef status_t callers_doubt_lease(Engine* engine) noexcept nogil
# A linearizable read; takes the submission over.
cdef void callers_read(Engine* engine, Submission* submission) noexcept nogil
cdef status_t callers_ask_reads(Engine* engine) noexcept nogil
cdef void callers_read_ready(Reads* reads, const ReadReady* ready) noexcept nogil
# Complete the reads whose index is applied and published.
cdef void callers_serve_reads(Engine* engine) noexcept nogil
# Ask again for read rounds that stayed silent; called once in a while.
cdef void callers_repeat_reads(Engine* engine) noexcept nogil
# This node is no member any more: everyone who waits is told NOT_READY what was not proposed, OUTCOME_UNKNOWN the rest.
cdef void callers_removed(Engine* engine) noexcept nogil
# Everyone who waits is told: NODE_CLOSED what was not proposed, OUTCOME_UNKNOWN the rest.
cdef void callers_stop(Engine* engine) noexcept nogil
cdef void callers_release(Calls* calls, Reads* reads) noexcept nogil
