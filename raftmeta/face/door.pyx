"""The doors of a node: which ones it has.

It decides which protocols there are. A protocol's modules are loaded when a node opens a door for it, and not before.
It must never know a protocol.
"""

from importlib import import_module

# Where the door listens, and the class that opens it.
DOORS = (
    ("zookeeper_listen", "raftmeta.face.zookeeper", "OpenZooKeeper"),
    ("kafka_listen", "raftmeta.face.kafka", "OpenKafka"),
    ("etcd_listen", "raftmeta.face.etcd", "OpenEtcd"),
)


cdef class OpenDoor:
    cdef int open(self, Loop* loop, Accounts* accounts, object identity, object config, object program) except -1:
        raise NotImplementedError

    cdef void prepare(self, TlsContext* context) noexcept:
        context.is_foreign = True

    cdef dict metrics(self):
        raise NotImplementedError


cdef int open_doors(list doors, Loop* loop, Accounts* accounts, object identity, object config,
                    dict programs) except -1:
    cdef OpenDoor door
    for field, module, name in DOORS:
        if getattr(identity, field) is not None:
            door = getattr(import_module(module), name)()
            doors.append(door)
            door.open(loop, accounts, identity, config, programs.get(field))
    return 0


cdef int take_doors(list doors, DoorBlock* blocks) noexcept:
    cdef OpenDoor door
    cdef int count = 0
    for door in doors:
        blocks[count] = door.block
        door.block.connections = NULL
        count += blocks[count].connections != NULL
    return count
