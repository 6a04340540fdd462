# Changes of members, as etcd's clients ask for them: MemberRemove, MemberPromote, MemberUpdate, MemberAdd.
#
# A member of etcd is found by its id, and so is one of this cluster. A removal and a promotion are carried out to their
# end: a leader hands over first, and the answer comes once the membership is committed. A node joins by its name and
# its own settings, which etcd's requests do not have: MemberAdd and another address are refused.
from raftmeta.doors.etcd.state cimport EtcdCall, EtcdDoor, EtcdTask
from raftmeta.wire.commands cimport Bytes

cdef void member_add_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil
cdef void member_change_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil
cdef void member_change_go(EtcdDoor* door, EtcdCall* call) noexcept nogil
cdef void member_change_answered(EtcdDoor* door, EtcdCall* call, EtcdTask* task) noexcept nogil
