"""The Python thread that writes and reads the checkpoints of one node.

It decides whether a checkpoint is a base or a difference. It must never hold up the loop (nobody waits for
it but the truncation of the log, and the opening of a folder), cross to Python for less than a chunk, or go on after
stop(). Chunks are filled from the pinned state without the GIL.

A failed checkpoint leaves the one before in its place; the engine tries again at its next point, and says so.
"""

import logging
import os
import signal
import time
from collections import deque
from pathlib import Path

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.engine.snapshots.checkpoint cimport CheckpointHead
from raftmeta.loop.checkpoint_handover cimport (REQUEST_FORGET, REQUEST_NEXT, REQUEST_NONE, REQUEST_OPEN, REQUEST_TAKE,
                                                handover_answer, handover_close, handover_create, handover_destroy,
                                                handover_fill, handover_let_go, handover_pause, handover_wait)
from raftmeta.machine.dump cimport machine_dump_keep, machine_dump_since
from raftmeta.native.atomics cimport load_shared, store_shared
from raftmeta.status cimport (CORRUPT, DISK_FAILED, NEWER_FORMAT, NOT_FOUND, NO_KEY, NO_MEMORY, NO_SPACE, OK,
                              status_t)
from raftmeta.storage.disk cimport DISK_CALL_OPEN, DISK_CALL_WRITE, disk_failure

from raftmeta.common.apart import ApartThread
from raftmeta.storage.checkpoint import (CheckpointDamaged, CheckpointKeyMissing, CheckpointNewerFormat,
                                         CheckpointNoSpace, CheckpointStore, CheckpointUnopened, Manifest)

FOLDER = "checkpoint"   # FORMAT_: in the folder of the node

cdef enum:
    # A chunk is copied once under the GIL; beside a busy thread each return from LMDB may wait 5 ms for it, so few
    # chunks are better than small ones (docs/decisions/state-tree.md "Checkpoints").
    TUNE_CHUNK_BYTES = 512 * 1024
    TUNE_CHUNKS_AHEAD = 4
    TUNE_TURN_NS_MAX = 50_000_000
    TUNE_TURNS = 2              # x what the last difference took: members in front are as fast as this one, or nearly
    WAIT_NS = 60_000_000_000    # the bell always rings in between
    DESCRIPTOR_PAUSE_NS = 100_000_000   # until a store that found no descriptor is opened again

_log = logging.getLogger("raftmeta.checkpoint")


class _Stopped(Exception):
    """A checkpoint under way was given up. args[0]: status."""


cdef class Checkpoints:
    def __cinit__(self, data_dir, keys=None):
        self.handover = handover_create()
        if self.handover == NULL:
            raise MemoryError
        self.ahead = deque()
        self.is_read = True
        self.store = CheckpointStore(Path(os.path.abspath(os.fsdecode(data_dir))) / FOLDER, keys=keys)

    def __dealloc__(self):
        # The thread holds a reference, so it has ended, or never began.
        if self.handover != NULL:
            handover_destroy(self.handover)

    # --- life ---------------------------------------------------------------------------------------------------------
    cdef int start(self) except -1:
        # A daemon: a process that ends without closing its nodes loses a checkpoint under way and nothing else.
        self.thread = ApartThread(self._run, "raftmeta-checkpoint")
        self.thread.start()
        return 0

    cdef bint stop(self, double timeout_s) except -1:
        handover_close(self.handover)
        if self.thread is not None and not self.thread.wait(timeout_s):
            return False
        self.thread = None
        handover_let_go(self.handover)
        return True

    cdef bint is_own_thread(self) except -1:
        return self.thread is not None and self.thread.is_this()

    def _run(self):
        cdef uint32_t request
        cdef status_t status
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            while not load_shared(&self.handover.is_closing):
                with nogil:
                    request = handover_wait(self.handover, WAIT_NS)
                if request != REQUEST_NONE:
                    status = self._serve(request)
                    handover_answer(self.handover, status)
                    if status == OK and (request == REQUEST_OPEN or request == REQUEST_NEXT):
                        self._read_ahead()
        finally:
            handover_close(self.handover)
            self.chunks = None
            self.store.close()

    # --- requests -----------------------------------------------------------------------------------------------------
    def _serve(self, uint32_t request):
        try:
            if request == REQUEST_TAKE:
                self._take()
            elif request == REQUEST_OPEN:
                return self._open()
            elif request == REQUEST_NEXT:
                return self._next()
            elif request == REQUEST_FORGET:
                self._patiently(self.store.remove)
            self.last_error = None
            return OK
        except _Stopped as error:
            return error.args[0]
        except Exception as error:
            self.last_error = error
            _log.warning("checkpoint failed request=%d folder=%s error=%s", request, self.store.path, error)
            return self._status_of(error)

    def _patiently(self, call, *arguments, **options):
        """A store that could not be opened for want of a descriptor has done nothing: it is asked again, while the
        node runs. Only the truncation of the log waits for it."""
        try:
            while True:
                try:
                    return call(*arguments, **options)
                except CheckpointUnopened as error:
                    if (self.disk == NULL or not load_shared(&self.disk.is_patient)
                            or load_shared(&self.handover.is_closing)):
                        raise
                    store_shared(&self.disk.checkpoint_waits_for, <uint32_t>error.errno)
                with nogil:
                    handover_pause(self.handover, DESCRIPTOR_PAUSE_NS)
        finally:
            if self.disk != NULL:
                store_shared(&self.disk.checkpoint_waits_for, <uint32_t>0)

    def _status_of(self, error):
        if isinstance(error, CheckpointNoSpace):
            return NO_SPACE
        if isinstance(error, CheckpointDamaged):
            return CORRUPT
        if isinstance(error, CheckpointNewerFormat):
            return NEWER_FORMAT
        if isinstance(error, CheckpointKeyMissing):
            return NO_KEY
        if isinstance(error, MemoryError):
            return NO_MEMORY
        if self.disk != NULL:
            call = DISK_CALL_OPEN if isinstance(error, CheckpointUnopened) else DISK_CALL_WRITE
            store_shared(&self.disk.failure, disk_failure(call, getattr(error, "errno", 0)))
        return DISK_FAILED

    def _open(self):
        cdef bytes membership
        manifest = self._patiently(self.store.open)
        if manifest is None:
            return NOT_FOUND
        self.chunks = self.store.records()
        self.ahead.clear()
        self.is_read = False
        membership = manifest.membership
        self.handover.membership.clear()
        if not self.handover.membership.append(<const uint8_t*>membership, len(membership)):
            return NO_MEMORY
        self.handover.head.cluster.low = manifest.cluster_low
        self.handover.head.cluster.high = manifest.cluster_high
        self.handover.head.point.index = manifest.index
        self.handover.head.point.term = manifest.term
        self.handover.head.point.chain = manifest.chain
        self.handover.head.wall_ms = manifest.wall_ms
        self.handover.head.state_hash.low = manifest.state_hash_low
        self.handover.head.state_hash.high = manifest.state_hash_high
        self.handover.head.feature_level = manifest.feature_level
        self.handover.head.membership_index = manifest.membership_index
        self.handover.head.membership_length = <uint32_t>len(membership)
        self.handover.head.membership = self.handover.membership.data
        return OK

    def _next(self):
        if not self.ahead and not self.is_read:
            self._read()
        ahead = self.ahead.popleft() if self.ahead else None
        if isinstance(ahead, Exception):
            raise ahead
        self.given = ahead or b""
        self.handover.read = <const uint8_t*>PyBytes_AS_STRING(self.given)
        self.handover.read_length = <uint32_t>len(self.given)
        return OK if self.given else NOT_FOUND

    def _read_ahead(self):
        """Read and check chunks while the engine loads one: it seldom waits then, whoever else wants the processors."""
        while (not self.is_read and len(self.ahead) < TUNE_CHUNKS_AHEAD
               and load_shared(&self.handover.request) == REQUEST_NONE):
            self._read()

    def _read(self):
        try:
            chunk = next(self.chunks, None)
        except Exception as error:      # it concerns whoever asks for that chunk
            chunk = error
        self.is_read = chunk is None or isinstance(chunk, Exception)
        self.ahead.append(chunk)

    def _take(self):
        is_base = self.handover.base.root == NULL or self.store.is_base_due()
        if not is_base:
            machine_dump_since(self.handover.dump, &self.handover.base)
            # One after the other: a majority that writes at the same time is slower as a whole (thesis 5.1.2).
            with nogil:
                handover_pause(self.handover, self.handover.head.turn * self.turn_ns)
        began_s = time.time()
        manifest = self._patiently(self.store.write, self._head(), self._filled(), is_base=is_base)
        took_s = time.time() - began_s
        if not is_base:
            self.turn_ns = min(TUNE_TURN_NS_MAX, max(0, int(TUNE_TURNS * 1e9 * took_s)))
        _log.debug("checkpoint written folder=%s index=%d layers=%d began_s=%.6f took_s=%.6f", self.store.path,
                   manifest.index, len(manifest.layers), began_s, took_s)
        machine_dump_keep(self.handover.machine, self.handover.dump, &self.handover.base)

    def _head(self):
        cdef const CheckpointHead* head = &self.handover.head
        return Manifest(
            cluster_low=head.cluster.low,
            cluster_high=head.cluster.high,
            index=head.point.index,
            term=head.point.term,
            chain=head.point.chain,
            wall_ms=head.wall_ms,
            membership_index=head.membership_index,
            membership=_bytes(self.handover.membership.data, self.handover.membership.size),
            feature_level=head.feature_level,
            state_hash_low=head.state_hash.low,
            state_hash_high=head.state_hash.high,
        )

    def _filled(self):
        """The chunks of the dump, each with the count of its records."""
        cdef uint64_t count = 0
        cdef bint done = False
        cdef status_t status
        while not done:
            with nogil:
                status = handover_fill(self.handover, TUNE_CHUNK_BYTES, &count, &done)
            if status != OK:
                raise _Stopped(status)
            if count:
                yield _bytes(self.handover.records.data, self.handover.records.size), count


cdef bytes _bytes(const uint8_t* data, size_t length):
    return PyBytes_FromStringAndSize(<const char*>data, <Py_ssize_t>length)
