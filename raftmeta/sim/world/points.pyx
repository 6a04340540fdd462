"""Points of snapshots against the committed log; points.pxd has the rule."""

from libc.stdint cimport uint64_t

from raftmeta.raft.record cimport record_bytes
from raftmeta.sim.world.world_state cimport VIOLATION_NO_MEMORY, VIOLATION_SNAPSHOT, violate


cdef void points_note(World* world, const Record* record) noexcept nogil:
    cdef uint64_t* known = world.truth.record_bytes.insert(record.chain)
    if known == NULL:
        violate(world, VIOLATION_NO_MEMORY, 0, 0, 0)
    else:
        known[0] = record_bytes(record.length)


# Counted as a node counts from the beginning of the log. Where the length of a committed record is not known, the
# points behind it are not known either: points ends there.
cdef void points_committed(World* world, index_t index) noexcept nogil:
    cdef uint64_t* known = world.truth.record_bytes.find(world.truth.chains.data[index])
    cdef index_t point = world.truth.points.back() if world.truth.points.size != 0 else 0
    if known == NULL or world.truth.points.size + 1 != index:
        return
    world.truth.bytes_since_point += known[0]
    if ((world.config.snapshot_log_bytes != 0 and world.truth.bytes_since_point >= world.config.snapshot_log_bytes)
            or (world.config.snapshot_entries != 0 and index - point >= world.config.snapshot_entries)):
        point = index
        world.truth.bytes_since_point = 0
    if not world.truth.points.push(point):
        violate(world, VIOLATION_NO_MEMORY, 0, 0, 0)


# Within a turn the world does not know yet what is committed in it.
cdef void points_taken(World* world, SimNode* node, index_t index) noexcept nogil:
    node.point_taken = index if index > world.truth.points.size else 0
    if node.point_taken == 0 and world.truth.points.data[index - 1] != index:
        world.truth.has_other_points = True


cdef void points_check(World* world, SimNode* node) noexcept nogil:
    cdef index_t applied = node.engine.applying.applied
    if applied == 0 or applied > world.truth.points.size or world.truth.has_other_points:
        return
    if node.point_taken != 0:
        points_taken(world, node, node.point_taken)
    if world.truth.has_other_points:
        return
    world.counts.points += 1
    if node.engine.snapshots.point != world.truth.points.data[applied - 1]:
        violate(world, VIOLATION_SNAPSHOT, node.number, node.engine.snapshots.point,
                world.truth.points.data[applied - 1])


cdef void points_release(World* world) noexcept nogil:
    world.truth.record_bytes.release()
    world.truth.points.release()
