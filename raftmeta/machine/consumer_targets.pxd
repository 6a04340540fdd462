# Targets of a consumer group: what each of its members is to have, by the assignor that most of them wish for.
#
# The board is made of the members in machine.members and of the topics that they subscribe to and that there are, as
# the entry under way sees both. This module decides who is to get what. It does not decide when anybody may have it:
# machine/consumer_groups does.
from libc.stdint cimport uint64_t

from raftmeta.machine.consumer_records cimport ConsumerRecord
from raftmeta.machine.group_keys cimport Group
from raftmeta.machine.group_records cimport MemberView
from raftmeta.machine.state cimport Machine
from raftmeta.status cimport status_t
from raftmeta.wire.windows cimport Bytes

# ConsumerMeta.seen of a member with this subscription, by the topics of now. root: of their keys.
cdef uint64_t consumer_seen_now(Machine* machine, const Bytes* root, const Bytes* subscription) noexcept nogil
# *member says this from now on. False: no memory.
cdef bint consumer_put(Machine* machine, MemberView* member, const ConsumerRecord* consumer) noexcept nogil
# Give each member in machine.members its target for the group's epoch, and store those that get another one. `me`
# is stored by the caller; its place is `at`. NO_MEMORY, TOO_MANY_CHANGES.
cdef status_t consumer_retarget(Machine* machine, Group* group, const Bytes* root, size_t at) noexcept nogil
