"""The values that the loop of a node is given before it starts, and why a folder cannot be run.

It decides what a Config and an Identity come to in native units, and the bounds that follow from several
settings. It must never judge a setting (raftmeta/config), or open anything (engine/boot).
"""

import os

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from raftmeta.engine.state cimport BOOT_IDENTITY, BOOT_STATE, EngineConfig
from raftmeta.face.answers cimport raise_unless_ok
from raftmeta.loop.loop cimport Loop, loop_add_peer
from raftmeta.machine.state cimport FORMAT_SESSION_WINDOW_MAX, FORMAT_VALUE_BYTES_MAX
from raftmeta.native.atomics cimport load_shared
from raftmeta.raft.invariants cimport BROKEN_ACKNOWLEDGED_LOST
from raftmeta.raft.state cimport core_config_init
from raftmeta.status cimport (CORRUPT, DISK_FAILED, FOREIGN_CLUSTER, FOREIGN_NODE, HISTORY_LOST, INVARIANT_BROKEN,
                              IN_USE, NEWER_FORMAT, NO_KEY, NOT_FOUND, status_t)

from raftmeta.errors import (ConfigError, FolderInUse, ForeignFolder, NewerFormat, StorageCorrupt, broken_belief,
                             error_from_status, unapplied_text)
from raftmeta.security.encryption import missing
from raftmeta.storage.keys_in_use import keys_of_folder
from raftmeta.storage.skipped_file import skipped_pairs

cdef enum:
    TUNE_CHANGES_PER_SLICE = 1000
    TUNE_PROPOSE_BYTES = 1024 * 1024
    TUNE_LOG_CHUNK_BYTES = 1024 * 1024
    TUNE_STATE_INTERVAL = 1024              # entries between two points at which members compare their states
    FORMAT_SNAPSHOT_CHUNK_BYTES = 256 * 1024    # alike on all members: their sealed files are then the same bytes


cdef int fill_loop(Loop* loop, object config, object identity) except -1:
    _fill_config(&loop.engine.config, config, identity)
    loop.engine.divergence.interval = TUNE_STATE_INTERVAL
    loop.recorder.bytes = config.flight_recorder_bytes
    _fill_limits(loop, config)
    return _add_peers(loop, identity)


cdef int _fill_config(EngineConfig* into, object config, object identity) except -1:
    name = identity.name.encode()
    cluster = identity.cluster.encode()
    address = str(identity.advertise).encode()
    tick_ms = max(1, round(config.tick_s * 1000))
    into.name_length = len(name)
    memcpy(into.name, <const uint8_t*><bytes>name, len(name))
    into.cluster_name_length = len(cluster)
    memcpy(into.cluster_name, <const uint8_t*><bytes>cluster, len(cluster))
    into.address_length = len(address)
    memcpy(into.address, <const uint8_t*><bytes>address, len(address))
    core_config_init(&into.core, 0, 0)
    into.core.tick_ms = tick_ms
    into.core.heartbeat_ticks = max(1, round(config.heartbeat_s * 1000 / tick_ms))
    into.core.election_timeout_ticks = round(config.election_timeout_s * 1000 / tick_ms)
    into.core.append_bytes_max = config.append_bytes_max
    into.core.log_chunk_bytes = TUNE_LOG_CHUNK_BYTES
    into.core.inflight_bytes_max = config.inflight_bytes_max
    into.core.uncommitted_bytes_max = config.uncommitted_bytes_max
    into.core.log_memory_bytes_max = config.log_memory_bytes_max
    into.core.free_bytes_min = config.reserve_bytes
    into.core.lease_reads = config.lease_reads
    into.core.checks = config.checks
    into.core.is_observer = identity.is_observer
    into.machine.value_bytes_max = FORMAT_VALUE_BYTES_MAX
    into.machine.session_window = FORMAT_SESSION_WINDOW_MAX
    into.machine.changes_per_slice = TUNE_CHANGES_PER_SLICE
    for index, chain in skipped_pairs(identity.data_dir):       # not more than there is room for (storage/skipped_file)
        into.machine.skipped[into.machine.skipped_count].index = index
        into.machine.skipped[into.machine.skipped_count].chain = chain
        into.machine.skipped_count += 1
    into.tick_ms = tick_ms
    into.segment_bytes = config.segment_bytes
    into.wal_bytes_max = config.wal_bytes_max
    into.reserve_bytes = config.reserve_bytes
    into.history_bytes_max = config.history_bytes_max
    # Two intervals are kept, a third fills while the snapshot of the second is taken.
    into.snapshot_log_bytes = min(config.snapshot_log_bytes, config.wal_bytes_max // 4)
    into.snapshot_entries = config.snapshot_entries
    into.snapshot_chunk_bytes = FORMAT_SNAPSHOT_CHUNK_BYTES
    into.session_ttl_ms = round(config.session_ttl_s * 1000)
    into.session_window = config.session_window
    into.outstanding_max = config.outstanding_max
    into.watch_queue_bytes_max = config.watch_queue_bytes_max
    into.apply_slice_ns = round(config.apply_slice_s * 1e9)
    into.names_process = config.leases_end_with_process
    into.host_watchdog_ns = round(config.host_watchdog_s * 1e9)
    into.propose_bytes_max = TUNE_PROPOSE_BYTES
    return 0


cdef int _fill_limits(Loop* loop, object config) except -1:
    loop.transport_limits.unbound_max = config.unbound_connections_max
    loop.transport_limits.hello_timeout_ns = round(config.hello_timeout_s * 1e9)
    loop.transport_limits.queue_bytes_max = config.link_queue_bytes_max
    loop.transport_limits.reconnect_min_ns = round(config.reconnect_min_s * 1e9)
    loop.transport_limits.reconnect_max_ns = round(config.reconnect_max_s * 1e9)
    return 0


cdef int _add_peers(Loop* loop, object identity) except -1:
    for name, address in sorted(identity.peers.items()):
        is_self = name == identity.name
        raw_name = name.encode()
        raw_address = str(identity.advertise if is_self else address).encode()
        raise_unless_ok(loop_add_peer(loop, <const uint8_t*><bytes>raw_name, <uint8_t>len(raw_name),
                                      <const uint8_t*><bytes>raw_address, <uint8_t>len(raw_address), is_self))
    return 0


# By raftmeta/storage/disk DiskCall.
_DISK_CALLS = ("", "open", "read", "write", "sync", "change", "list")


cdef str disk_call_name(uint64_t call):
    return _DISK_CALLS[call] if call < <uint64_t>len(_DISK_CALLS) else ""


# The words of the system about a disk that failed, with their number; empty: none.
cdef str _disk_detail(Loop* loop):
    cdef uint64_t failure = load_shared(&loop.disk.failure)
    cdef int error = <int><uint32_t>failure
    return f"{disk_call_name(failure >> 32)}: [Errno {error}] {os.strerror(error)}" if error else ""


cdef str _disk_reason(Loop* loop):
    return os.strerror(<int><uint32_t>load_shared(&loop.disk.failure))


# Which file, and what to do.
cdef object _corrupt_error(Loop* loop, object identity):
    path = identity.data_dir
    if loop.engine.boot_part == BOOT_IDENTITY:
        damage = f"the file {path / 'identity'} is damaged"
    elif loop.engine.boot_part == BOOT_STATE:
        damage = (f"no copy of the state in {path} is whole (folder 'checkpoint', files *.sealed), and the log does "
                  "not reach back to its beginning")
    else:
        damage = f"the log in {path} (files *.log and 'mark') has lost what it acknowledged"
    if len(identity.peers) > 1:
        remedy = "move the folder away and start again: the other members give this node their data"
    else:
        remedy = (f"no other member has the data: 'raftmeta snapshot save FILE --data {path}' saves what can be read; "
                  "restore that file or a backup into another folder")
    return StorageCorrupt(f"data_dir: {damage}. {remedy[0].upper()}{remedy[1:]}")


cdef str _history_detail(const Loop* loop):
    if loop.broken == BROKEN_ACKNOWLEDGED_LOST:
        return (f"this node acknowledged entry {loop.broken_a}, and its log ends at {loop.broken_b}. Its own folder "
                "was put back to an older copy: delete the folder, and the node comes back as a new member")
    return (f"entry {loop.broken_a} differs from the leader's, and up to {loop.broken_b} all is committed here. The "
            "folder of another voter was put back to an older copy. Keep this folder: it holds what they have lost")


cdef object stopped_error(Loop* loop):
    if loop.fatal == HISTORY_LOST:
        return error_from_status(loop.fatal, detail=_history_detail(loop))
    if loop.fatal == INVARIANT_BROKEN:
        return broken_belief(loop.broken, loop.broken_a, loop.broken_b, entry=loop.unapplied)
    detail = _disk_detail(loop) if loop.fatal == DISK_FAILED else unapplied_text(loop.unapplied)
    return error_from_status(loop.fatal, detail="; ".join(filter(None, (detail, "the node has stopped"))))


cdef object open_error(Loop* loop, status_t status, uint64_t holder, object identity, object keys):
    path = identity.data_dir
    if status == NO_KEY:
        return missing(path, keys_of_folder(path), keys)
    if status == IN_USE:
        return FolderInUse(f"data_dir: process {holder or '(unknown)'} runs a node in {path}", pid=holder)
    if status == FOREIGN_CLUSTER:
        return ForeignFolder(f"data_dir: {path} belongs to another cluster than {identity.cluster!r}", field="data_dir")
    if status == FOREIGN_NODE and loop.identity != NULL and loop.identity.is_new:
        return ForeignFolder(f"data_dir: {path} holds a log but no file 'identity', which says whose log it is. "
                             "Put that file back, or start the node over another folder", field="data_dir")
    if status == CORRUPT:
        return _corrupt_error(loop, identity)
    if status == DISK_FAILED and loop.disk.directory < 0:
        return ConfigError(f"data_dir: {path} cannot be opened as a folder: {_disk_reason(loop)}", field="data_dir")
    if status == FOREIGN_NODE:
        return ForeignFolder(f"data_dir: {path} belongs to another node than {identity.name!r}", field="data_dir")
    if status == NEWER_FORMAT:
        return NewerFormat(f"data_dir: {path} was written by a newer version of raftmeta", field="data_dir")
    if status == NOT_FOUND:
        return ConfigError(f"data_dir: the folder above {path} does not exist", field="data_dir")
    detail = _disk_detail(loop) if status == DISK_FAILED else ""
    return error_from_status(status, detail=": ".join(filter(None, (str(path), detail))))
