"""Watching keys from Python: every change once, in order of revision, from any revision that history still has.

It decides where to go on after the native watch ended. It lagged: from the revision it names, unless the caller
wants to know (Lagged). History does not reach back far enough: Compacted, or, if so asked, one WatchReset with all
that matches and then what follows it. It must never skip a revision silently.

Why the signal outlives its watch: the loop writes to it until the unwatch is done; until then NodeBase.attached holds
this object.
"""

import threading

from cpython.exc cimport PyErr_CheckSignals
from cpython.object cimport PyTypeObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.face.answers cimport PURPOSE_NOTHING, PURPOSE_WATCH, deadline_after
from raftmeta.face.base cimport LIFE_RUNNING, NodeBase
from raftmeta.face.watch_callbacks cimport Callback, WatchCallbacks
from raftmeta.loop.tickets cimport MAIL_WATCH
from raftmeta.machine.watch_state cimport Watch as NativeWatch
from raftmeta.machine.watches cimport (WATCH_CLOSED, WATCH_COMPACTED, WATCH_EVENTS, WATCH_LAGGED, WATCH_PROGRESS_MARK,
                                       WATCH_REMOVED, watch_look, watch_pass)
from raftmeta.native.atomics cimport load_shared, store_shared
from raftmeta.native.threads cimport Turnstile, boot_now_ns, futex_wait

from raftmeta.errors import Compacted, Fatal, Lagged, NodeRemoved, NotExecuted
from raftmeta.results import WatchBatch, WatchReset
from raftmeta.verbs.asked import RangeAsked
from raftmeta.verbs.watch import Watch

cdef extern from "Python.h":
    object PyType_GenericAlloc(PyTypeObject* type, Py_ssize_t count)
    int PyGC_Disable()
    int PyGC_Enable()

cdef object _WatchBatch = WatchBatch

cdef enum:
    SIGNALS_LOOKED_AT_NS = 50_000_000
    TUNE_ITEMS = 256                # taken at once
    TUNE_ITEM_BYTES = 1024 * 1024


cdef object batch_of(tuple told):
    cdef object batch = PyType_GenericAlloc(<PyTypeObject*>_WatchBatch, 4)    # tuple.__new__ without the call
    cdef list events = list(<tuple>told[2])
    cdef int place
    for place in range(4):
        item = events if place == 2 else told[place]
        Py_INCREF(item)
        PyTuple_SET_ITEM(batch, place, item)
    return batch


cdef class WatchBase:
    def __init__(self, NodeBase node not None, asked):
        deadline_after(asked.timeout_s)
        self.node = node
        self.bounds = asked.start + asked.end
        self.key_length = <uint32_t>len(asked.start)
        self.resume = asked.revision
        self.filter = asked.filter
        self.raises_lagged = asked.raises_lagged
        self.resets = asked.resets
        self.timeout_s = asked.timeout_s
        memset(&self.signal, 0, sizeof(WatchSignal))
        self.signal.mail.kind = MAIL_WATCH
        self.signal.consumer = <void*>self

    cdef bint can_take(self):
        return self.watch != NULL and self.node.life == LIFE_RUNNING

    cdef int on_news(self) except -1:
        return 0

    cdef Ticket* submit(self, Mailbox* mailbox) except NULL:
        self.node.attached.add(self)
        return self.node.submit_watch(<const uint8_t*>self.bounds, self.key_length, <uint32_t>len(self.bounds),
                                      self.resume, self.filter, &self.signal, mailbox)

    cdef int opened(self, object pointer) except -1:
        self.watch = <void*><size_t>pointer
        return 0

    cdef int take(self) except -1:
        cdef WatchView view
        cdef uint32_t count = 0
        cdef uint64_t length = 0
        cdef int outcome = TAKE_WAIT
        cdef uint64_t revision
        cdef bint is_whole
        cdef uint8_t kind
        cdef void* native
        # Any Python code may end the watch and its memory, so each item begins with the question whether it is open.
        while count < TUNE_ITEMS and length < TUNE_ITEM_BYTES:
            if not self.can_take():
                return TAKE_CLOSED if self.ready is None else TAKE_READY
            if not watch_look(<NativeWatch*>self.watch, &view):
                return outcome
            count += 1
            length += view.bytes
            kind, revision, is_whole = view.kind, view.revision, view.is_whole
            if kind == WATCH_EVENTS or kind == WATCH_PROGRESS_MARK:
                told = self._pass_told(&view)
                self.resume = revision + 1 if is_whole else revision
                self.give(told)
                outcome = TAKE_READY
            else:
                native = self.watch
                outcome = self._take_mark(kind, revision)
                if self.can_take() and self.watch == native:
                    watch_pass(<NativeWatch*>native, &view)
        return outcome

    # The item lies in the watch's memory until it is passed. No collection, and so no code of anybody's, runs
    # meanwhile.
    cdef tuple _pass_told(self, const WatchView* view):
        cdef int collects = PyGC_Disable()
        try:
            told = self.node.watch_events.told(view)
            watch_pass(<NativeWatch*>self.watch, view)
            return told
        finally:
            if collects:
                PyGC_Enable()

    cdef int _take_mark(self, uint8_t kind, uint64_t revision) except -1:
        if kind == WATCH_LAGGED:
            self.resume = revision
            if not self.raises_lagged:
                return TAKE_REOPEN
            self.give(Lagged(f"the watcher was too slow; go on from revision {revision}", revision=revision))
            return TAKE_CLOSED
        if kind == WATCH_COMPACTED:
            return self._reset(revision)
        if kind == WATCH_REMOVED:
            self.give(NodeRemoved(
                f"node {self.node.identity.name} was removed from the cluster; watch at one of its members, from "
                f"revision {revision} on", revision=revision))
            return TAKE_CLOSED
        return TAKE_CLOSED if kind == WATCH_CLOSED else TAKE_WAIT

    cdef int give(self, object found) except -1:
        if self.ready is None:
            self.ready = []
        self.ready.append(found)
        return 0

    cdef object first_ready(self):
        cdef list ready = self.ready
        found = ready[self.given]
        ready[self.given] = None
        self.given += 1
        if self.given == len(ready):
            self.ready = None
            self.given = 0
        if type(found) is not tuple and isinstance(found, Exception):
            raise found
        return found

    # History does not reach back to `resume`.
    cdef int _reset(self, uint64_t floor) except -1:
        if not self.resets:
            self.give(Compacted(f"history begins after revision {floor}", revision=floor))
            return TAKE_CLOSED
        key, end = self.bounds[:self.key_length], self.bounds[self.key_length:]
        found = self.node.read_range(RangeAsked(key, end))
        self.give(WatchReset(found.revision, found.records))
        self.resume = found.revision + 1
        return TAKE_REOPEN


cdef class NodeWatch(WatchBase, Watch):
    def __init__(self, NodeBase node not None, asked, callback=None, on_end=None):
        super().__init__(node, asked)
        if callback is not None:
            self._begin_callback(callback, on_end)
        try:
            self._open()
        except BaseException:
            self._end_callback()
            raise
        if callback is not None:
            self.callbacks.look_at(self.callback)       # it may have been told before there was a watch to look at

    cdef int _open(self) except -1:
        cdef uint64_t deadline_ns = deadline_after(5.0)
        self.node.await_session(deadline_ns)
        self.opened(self.node.finish(self.submit(NULL), PURPOSE_WATCH, deadline_ns))
        return self._close_native() if self.is_closed else 0        # meanwhile

    cdef int _close_native(self) except -1:
        cdef void* watch = self.watch
        self.watch = NULL
        if watch == NULL or self.node.life != LIFE_RUNNING:
            return 0
        try:
            self.node.finish(self.node.submit_unwatch(watch, NULL), PURPOSE_NOTHING, ~<uint64_t>0)
        except (Fatal, NotExecuted):
            return 0        # the node ended meanwhile, and lets go of `attached` itself
        self.node.attached.discard(self)
        return 0

    cdef int _begin_callback(self, object callback, object on_end) except -1:
        self.callback = WatchCallback.__new__(WatchCallback, self, callback, on_end)
        self.callbacks = self.node.watch_callbacks()
        self.callbacks.add(self.callback)
        self.signal.mailbox = self.callbacks.mailbox
        self.signal.consumer = <void*>self.callback
        return 0

    cdef int _end_callback(self) except -1:
        return self.callbacks.remove(self.callback) if self.callbacks is not None else 0

    def close(self):
        self.is_closed = True
        self._close_native()
        self._end_callback()

    def _next(self, timeout_s):
        """The next item, as `told` or a reset; None: closed, or timeout_s passed."""
        cdef uint64_t deadline_ns = deadline_after(timeout_s)
        cdef uint32_t seen
        cdef uint64_t now_ns
        cdef int outcome
        while self.ready is None:
            if self.is_closed or not self.can_take():
                return None
            seen = load_shared(&self.signal.word)
            outcome = self.take()
            if outcome == TAKE_REOPEN:
                self._close_native()
                self._open()
            elif outcome == TAKE_CLOSED:
                self.close()
            elif outcome == TAKE_WAIT:
                now_ns = boot_now_ns()
                if now_ns >= deadline_ns:
                    return None
                self._sleep(seen, deadline_ns - now_ns)
        return self.first_ready()

    # Until there is news, or a signal for this process, or pause_ns have passed: look again.
    #
    # A thread that waits for the GIL asks for it every 5 ms. When a thousand did, that was most of what they did.
    # So those with news wait for each other first, where waiting costs nothing.
    cdef int _sleep(self, uint32_t seen, uint64_t pause_ns) except -1:
        cdef Turnstile* turnstile = &self.node.turnstile
        pause_ns = min(pause_ns, <uint64_t>SIGNALS_LOOKED_AT_NS)
        store_shared(&self.signal.is_awaited, <uint32_t>1)
        with nogil:
            futex_wait(&self.signal.word, seen, pause_ns)
            turnstile.enter()
        turnstile.leave()
        PyErr_CheckSignals()
        return 0

    def batches(self):
        while (found := self.first_ready() if self.ready is not None else self._next(self.timeout_s)) is not None:
            yield batch_of(found) if type(found) is tuple else found

    def __iter__(self):
        while (found := self.first_ready() if self.ready is not None else self._next(self.timeout_s)) is not None:
            if type(found) is tuple:
                yield from (<tuple>found)[2]
            else:
                yield found


cdef class WatchCallback(Callback):
    def __cinit__(self, NodeWatch watch not None, callback, on_end):
        self.watch = watch
        self.callback = callback
        self.on_end = on_end

    cdef bint call(self, WatchCallbacks callbacks) except -1:
        cdef bint has_more = False
        try:
            has_more = self._call_with_some(callbacks)
        except BaseException as error:
            self._fail(error, callbacks)
        return has_more

    cdef int _fail(self, object error, WatchCallbacks callbacks) except -1:
        if self.on_end is None and isinstance(error, (Fatal, NotExecuted)):
            return 0        # the node ended meanwhile
        return self._fail_by(error, callbacks)

    cdef int _fail_by(self, object error, WatchCallbacks callbacks) except -1:
        self.watch.close()
        if self.on_end is not None:
            return self._tell_end(error, callbacks)
        return _report(error)

    cdef int _tell_end(self, object error, WatchCallbacks callbacks) except -1:
        callbacks.on_call()
        try:
            self.on_end(error)
        except BaseException as raised:
            _report(raised)
        callbacks.on_call()
        return 0

    # Call back with the items that one look finds.
    cdef bint _call_with_some(self, WatchCallbacks callbacks) except -1:
        cdef NodeWatch watch = self.watch
        cdef int outcome
        if watch.is_closed or watch.node.life != LIFE_RUNNING:
            watch._end_callback()
            return False
        if not watch.can_take():
            return False        # the answer that opens it is still on its way to the thread that asked
        outcome = watch.take()
        if outcome == TAKE_REOPEN:
            watch._close_native()
            watch._open()
        while watch.ready is not None:
            found = watch.first_ready()
            callbacks.on_call()
            try:
                self.callback(batch_of(found) if type(found) is tuple else found)
            except BaseException as error:      # also one that says that the node ended: it is the callback's own
                self._fail_by(error, callbacks)
                return False
            callbacks.on_call()
        if outcome == TAKE_CLOSED:
            watch.close()
            if self.on_end is not None:
                self._tell_end(None, callbacks)
        return outcome != TAKE_WAIT


# The hook says nothing of SystemExit, which ends no thread here.
cdef int _report(object error) except -1:
    if isinstance(error, SystemExit):
        error, cause = RuntimeError(f"the callback of a watch raised {error!r}"), error
        error.__cause__ = cause
    threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__,
                                                   threading.current_thread())))
    return 0
