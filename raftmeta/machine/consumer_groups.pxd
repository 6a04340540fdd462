# Consumer groups (KIP-848): the log itself assigns partitions to members (docs/groups.md "Consumer groups").
#
# A group has an epoch, which grows whenever its members or their topics change, and a target for the epoch. Each member
# goes to its target on its own, with its heartbeats: first it gives back what is not its own any more, then it takes
# what others have given back. This module decides each of these steps. A heartbeat that changes nothing is no entry: a
# door answers it (doors/kafka/consumer_groups).
#
# Invariants: no partition stands in the lists of two members, assigned and to be given back taken together; the epoch
# of a member is never above that of the target, and that of the target never above that of the group; none of them
# falls, but a static member that left for a while begins anew.
from raftmeta.machine.group_keys cimport Group
from raftmeta.machine.state cimport Machine
from raftmeta.status cimport status_t

# Do the request of machine.command (GROUP_CONSUMER) as a plan. The answer stands in machine.transaction.body: [code,
# id, epoch, whether the assignment is told, the assignment]. *code: GROUP_OK, or why it is refused. OK,
# COMMAND_INVALID, TOO_MANY_CHANGES, NO_MEMORY, INVARIANT_BROKEN.
cdef status_t consumer_run(Machine* machine, Group* group, int* code) noexcept nogil
