# All that a caller can ask of a node: the closed list of kinds, and what each kind says.
#
# A submission is one block of memory: the head, the arguments of its kind, and its payload's bytes behind the struct.
# The caller allocates it, the engine (or the loop, for what only the loop knows) frees it. engine/engine and loop/loop
# each tell the kinds apart in one place: `_take`, `_take_submissions`.
#
# A new wish is a kind here, a struct of its arguments if it has any, and a line in one of these two functions.
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc

from raftmeta.machine.watch_state cimport Watch, WatchPurse
from raftmeta.raft.types cimport index_t, member_id_t

cdef enum SubmissionKind:
    # Commands: they become entries of the log, and their answer comes when this node applied them.
    SUBMIT_COMMAND = 1          # payload: command envelope with this node's session and `sequence`
    SUBMIT_CLIENT_COMMAND = 2   # payload: command envelope of a client's own session, proposed as given

    # Wishes: answered by this node at once, or after a word with the leader.
    SUBMIT_READ = 16            # complete when a linearizable read may be served from the published state
    SUBMIT_WATCH = 17           # payload: key bytes then end bytes; done() gives the 8 bytes of the Watch* as body
    SUBMIT_UNWATCH = 18         # its consumer has stopped taking
    SUBMIT_KEEP_LEASE = 19      # start native keep-alives of a lease
    SUBMIT_DROP_LEASE = 20      # stop them
    SUBMIT_LIST_LEASES = 21     # body: a page, docs/formats.md "Client protocol"
    SUBMIT_TRANSFER = 22        # hand leadership over
    SUBMIT_CAMPAIGN = 23        # tests and demo
    SUBMIT_MEMBERSHIP = 24      # payload: encoded Membership to change to
    SUBMIT_MEET = 25            # payload: name then address; keep a connection to it for a while, although no
                                # membership names it: to learn its incarnation
    SUBMIT_USER_FETCH = 26      # payload: a UserFetch and a machine's name (engine/user_fetches); body: UserNews ...
    SUBMIT_USER_LAST = 27       # payload: a machine's name; body: the index of its last command
    SUBMIT_USER_EVENT = 28      # a copy of a user machine has something to tell: CallerPort.event
    SUBMIT_USER_ASK = 29        # payload: a machine's name, then a packed call. NOT_FOUND: no copy is here
    SUBMIT_USER_ANSWER = 30     # payload: what the copy says
    SUBMIT_USER_JOIN = 31       # payload: the name of a machine whose copy can be asked from now on
    SUBMIT_USER_LEAVE = 32      # payload: the name of one that can be asked no more; those who wait get NOT_FOUND
    SUBMIT_SET_FAULTS = 33      # the loop's: payload: the table of LinkFaults from now on (loop/faults)
    SUBMIT_SHOW_LEASE = 34      # list_leases.least: its id; body: ttl in ms, remaining ms, [key, ...], in a row, as
                                # this node has applied it. NOT_FOUND: there is no such lease

    # Awaited: the loop looks once a turn, and answers when it is so.
    AWAIT_READY = 64            # the node has a leader, a session, and has applied what was committed
    AWAIT_FOLLOWER = 65         # the node does not lead (any more)
    AWAIT_USERS = 66            # the cluster's feature level has user machines
    AWAIT_MEMBERSHIP = 67       # another membership is committed
    AWAIT_SNAPSHOT = 68         # a sealed file of this state or a later one is there; revision: its index

cdef enum SubmissionRange:
    SUBMIT_WISHES_FROM = 16
    SUBMIT_AWAITED_FROM = 64

# --- the arguments of each kind; a kind without a struct has none -----------------------------------------------------
# Both kinds of commands: an answer finds its command by session and sequence.
cdef struct CommandArguments:
    uint64_t session            # it was encoded for. Of a client's SESSION_OPEN: the session's id, with sequence 0
    uint64_t sequence           # of this node's own: from 1, ascending by 1 in the order of submission; goes on when
                                # the session changes
    uint32_t machine_offset     # a client's command for a user machine: where in the payload the machine's name stands,
    uint32_t machine_length     #   and its length; 0: it is for none
    uint8_t is_urgent           # keep-alives, fences, deletes, membership changes: never Overloaded

cdef struct WatchArguments:
    void* handle                # told by CallerPort.woken
    WatchPurse* purse           # of a client; valid until it was answered. NULL: this node's own
    uint64_t start_revision
    uint32_t key_length         # of the payload's first part
    uint32_t filter

cdef struct UnwatchArguments:
    Watch* watch                # freed by the engine

cdef struct KeepLeaseArguments:
    uint64_t lease
    uint64_t ttl_ms
    void* handle                # told by CallerPort.lease_kept

cdef struct DropLeaseArguments:
    uint64_t lease

cdef struct ListLeasesArguments:
    uint64_t least              # id with which the page begins
    uint64_t owner              # number of the user whose leases alone are listed; 0: all

cdef struct TransferArguments:
    member_id_t target          # 0: any

cdef struct MembershipArguments:
    index_t made_from           # index of the membership that the new one was made from

cdef struct MeetArguments:
    uint32_t name_length        # of the payload's first part

cdef struct UserEventArguments:
    uint64_t a
    uint64_t b
    uint64_t c
    uint8_t type                # EngineEventType

cdef struct UserAskArguments:
    index_t index               # of ASK_OUTCOME: of the command's entry
    uint32_t name_length        # of the payload's first part
    uint8_t ask                 # UserAskKind
    uint8_t is_given            # its copy has it

cdef struct UserAnswerArguments:
    uint64_t ask                # which one, by its id
    uint32_t status             # status_t

cdef struct SetFaultsArguments:
    uint64_t seed

cdef struct AwaitMembershipArguments:
    index_t other_than          # index of the one that it waits to see replaced

cdef union SubmissionArguments:
    CommandArguments command
    WatchArguments watch
    UnwatchArguments unwatch
    KeepLeaseArguments keep_lease
    DropLeaseArguments drop_lease
    ListLeasesArguments list_leases
    TransferArguments transfer
    MembershipArguments membership
    MeetArguments meet
    UserEventArguments user_event
    UserAskArguments user_ask
    UserAnswerArguments user_answer
    SetFaultsArguments set_faults
    AwaitMembershipArguments await_membership

cdef struct Submission:
    Submission* next            # the lock-free queue's link
    void* owner                 # ticket; NULL: nobody waits
    uint32_t length             # payload bytes behind the struct
    uint8_t kind                # SubmissionKind: says which of the arguments counts
    SubmissionArguments arguments

# Zeroed but for its kind and length, with room for the payload; NULL: no memory.
cdef inline Submission* submission_create(uint8_t kind, size_t payload_length) noexcept nogil:
    cdef Submission* submission = <Submission*>calloc(1, sizeof(Submission) + payload_length)
    if submission != NULL:
        submission.kind = kind
        submission.length = <uint32_t>payload_length
    return submission

cdef inline uint8_t* submission_payload(const Submission* submission) noexcept nogil:
    return <uint8_t*>submission + sizeof(Submission)

cdef inline bint submission_is_command(const Submission* submission) noexcept nogil:
    return submission.kind < SUBMIT_WISHES_FROM

cdef inline bint submission_is_awaited(const Submission* submission) noexcept nogil:
    return submission.kind >= SUBMIT_AWAITED_FROM
