# How a copy of a user machine, on a Python thread of its own, gets what the replicated machine has for it.
#
# Its thread asks (SUBMIT_USER_FETCH) and is answered when there is something: commands behind its pointer, or a part of
# the last dump when it lags behind that. So nothing is queued for it, the loop never waits for it, and what it has not
# asked for stands once, in the replicated state.
#
# Clients of this node ask its copies, too: for the outcome of a command, or to run a read. The next fetch gives
# their questions to the copy, which answers them (SUBMIT_USER_ANSWER); a copy says when it can be asked, and when no
# more.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.engine.state cimport Engine
from raftmeta.engine.submission cimport Submission
from raftmeta.raft.types cimport index_t

cdef enum UserAskKind:
    ASK_OUTCOME = 1
    ASK_READ = 2
    ASK_LOCAL_READ = 3

# One of those asks, before its call's bytes.
cdef packed struct UserAsk:
    uint64_t id
    uint64_t kind               # UserAskKind
    index_t index               # of the command; of a read, the last one that it must see
    uint64_t length             # of the call, which follows

# Payload of a SUBMIT_USER_FETCH; the machine's name follows.
cdef packed struct UserFetch:
    index_t after               # the copy's pointer: the last command it ran, or the dump it loaded; 0: it is new
    index_t dump_seen           # the dump that it knows of: it also wants to hear of another
    uint64_t offset             # how much it has of the dump it is being given

# An answer, as ticket body. Then UserAsks, then commands as machine/user_machines.users_take gives them, or bytes of
# the dump.
cdef packed struct UserNews:
    uint64_t gives_dump         # 1: bytes of the dump from `offset` on follow; 0: commands
    index_t last                # the machine's newest command
    index_t point               # after which a dump is due; 0: none
    uint64_t is_late            # anyone who has that dump may send it, not the leader only
    index_t dump_index          # the last whole dump; 0: none
    uint64_t dump_digest
    uint64_t dump_total
    uint64_t offset
    uint64_t ask_bytes          # of the UserAsks

# Each takes its kind of submission over.
# SUBMIT_USER_FETCH: answered now or when there is something.
cdef void user_fetches_submit(Engine* engine, Submission* submission) noexcept nogil
cdef void user_ask_submit(Engine* engine, Submission* ask) noexcept nogil
cdef void user_answer_submit(Engine* engine, Submission* answer) noexcept nogil
cdef void user_join_submit(Engine* engine, Submission* join) noexcept nogil
cdef void user_leave_submit(Engine* engine, Submission* leave) noexcept nogil
# Whether a copy of that machine can be asked here.
cdef bint user_is_joined(Engine* engine, const uint8_t* name, uint32_t length) noexcept nogil
# SUBMIT_USER_LAST: index of the last command of the machine that the payload names, as 8 bytes; 0: none.
cdef void user_last_submit(Engine* engine, Submission* submission) noexcept nogil
# Entries were applied and published, or another state was installed.
cdef void user_fetches_answer(Engine* engine) noexcept nogil
# Everyone who waits is told NODE_CLOSED.
cdef void user_fetches_stop(Engine* engine) noexcept nogil
