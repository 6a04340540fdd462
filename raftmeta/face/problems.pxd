# The reasons for which a node is not ready, in words: for NodeStatus.problems and for the text of a ReadyTimeout.
from raftmeta.loop.loop cimport LinkTable
from raftmeta.loop.loop cimport NodeStatus as StatusBlock
from raftmeta.raft.types cimport Membership

# directory: descriptor of the node's folder, below 0: not open any more. reserve: Config.reserve_bytes.
# certificates: face.certificates.Certificates; None: without TLS. trail: security.audit_writer.AuditWriter; None.
cdef tuple problems_of(object identity, int directory, object reserve, const StatusBlock* status,
                       const LinkTable* links, const Membership* membership, object certificates, object trail)
# An error of this kind with all of them.
cdef object not_ready_error(object kind, str message, tuple problems, const StatusBlock* status,
                            const LinkTable* links)
