# The one place that decides whether a command may be carried out: on the decoded tree, at apply, on every node alike.
#
# It decides before anything of the command is evaluated, over both branches of every transaction. So a refusal depends
# on the request and on the rights, and never on keys. A request that tells something about a key needs READ of the key:
# beside reads these are compares, fences, records before a change, and every write whose answer depends on the key.
from raftmeta.machine.leases cimport Leases
from raftmeta.machine.rights_state cimport Denial, Rights, TableToken, TableUser
from raftmeta.status cimport status_t
from raftmeta.wire.commands cimport Command

# Who speaks an entry. Neither: anybody, while rights are off.
cdef struct SpeakerOf:
    const TableUser* user
    const TableToken* token     # by which it speaks for the user; NULL: by itself
    bint is_node

# OK and *speaker. Any other status is not kept as a result, for another sending may fare better: NOT_READY (a node
# did not know yet that rights are on), AUTHENTICATION_FAILED, PERMISSION_DENIED (a session of another).
cdef status_t rights_know(Rights* rights, const Command* command, SpeakerOf* speaker) noexcept nogil
# OK, or PERMISSION_DENIED and *denial.
cdef status_t rights_decide(Rights* rights, Leases* leases, const SpeakerOf* speaker, const Command* command,
                            Denial* denial) noexcept nogil
