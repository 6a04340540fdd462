# Answers to joins and syncs as msgpack, into machine.transaction.body (docs/formats.md "Groups").
from libc.stdint cimport uint32_t

from raftmeta.machine.group_keys cimport Group
from raftmeta.machine.group_records cimport MemberView
from raftmeta.machine.state cimport Machine
from raftmeta.status cimport status_t
from raftmeta.wire.windows cimport Bytes

# FORMAT_: the first element of the answer to a join and to a sync.
cdef enum:
    ANSWER_WAITS = 1            # for the end of the phase
    ANSWER_DONE = 2
    ANSWER_ID_REQUIRED = 3      # join once more, with this id

# [what follows, id, generation, leader, protocol, whether the leader is to assign nothing]. A caller that waits does so
# for this generation. NO_MEMORY.
cdef status_t group_answer_join(Machine* machine, const Group* group, uint32_t what, const Bytes* id,
                                bint skips) noexcept nogil
# [what follows, generation, assignment]. NO_MEMORY.
cdef status_t group_answer_sync(Machine* machine, const Group* group, const MemberView* me) noexcept nogil
