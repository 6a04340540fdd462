# The speaker, for the other face of the ZooKeeper door.
from raftmeta.doors.zookeeper cimport auth


cdef class Speaker:
    cdef auth.ZkSpeaker speaker
    cdef auth.ZkSasl sasl
    cdef auth.ZkSaslUser* users
    cdef auth.ZkAuthSettings settings
    cdef object _kept
