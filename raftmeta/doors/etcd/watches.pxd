# Watch: streams of changes (etcd api/etcdserverpb rpc.proto Watch; server/etcdserver/api/v3rpc/watch.go).
#
# A stream has any number of watches, each with a feed of its own. It decides what a request of the stream means, which
# events make one answer, and when a client is told that it has seen everything. It never keeps events: they stay in
# the feed until the client reads, and a feed that is full goes on from the history. Answers hold whole revisions,
# unless the client asked for fragments.
#
# Departures, each in docs/etcd.md: a watch that begins at or below the compacted revision is told the first revision
# from which one may watch; WatchProgressRequest is answered once all watches of the stream are up to date, where etcd
# drops the request; a stream ends when its node knows no leader, whether its client asked for that or not.
from raftmeta.doors.etcd.state cimport EtcdCall, EtcdDoor
from raftmeta.wire.commands cimport Bytes

cdef void watches_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil
cdef void watches_go(EtcdDoor* door, EtcdCall* call) noexcept nogil
# The client may still read.
cdef void watches_half_closed(EtcdDoor* door, EtcdCall* call) noexcept nogil
cdef void watches_closed(EtcdDoor* door, EtcdCall* call) noexcept nogil
# Once in a while: marks for watches that are up to date, and an end where no leader is known.
cdef void watches_tend(EtcdDoor* door) noexcept nogil
