"""Call: what a task waits for once a verb of the asyncio face is submitted.

A coroutine with its frame, a future, a handle of the event loop and a bound callback for every put cost more than the
put. A Call is the future, its own iterator, and remembers the task that awaits it, which is resumed by whoever takes
the answers of a whole batch out of the mailbox, without another turn of the event loop. Submitted is the coroutine:
what a verb gives back that has begun already.

It decides who is told at once (a task of asyncio that awaits it) and who by the event loop (all others, and
everybody when it failed or was cancelled). It must never submit anything, or undo a write because it was
cancelled.

It is not known to the garbage collector, which would look at thousands of calls again and again. A cycle through a
call (its task) is closed only while it is pending, and then the mailbox's owner holds the call and ends it.
"""

cimport cython
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_DECREF, Py_INCREF

cdef extern from *:
    """
    // Slots that Cython does not fill: they give a value to `await` without making a StopIteration.
    static void raftmeta_set_slots(PyTypeObject* type, sendfunc send, iternextfunc next) {
        type->tp_as_async->am_send = send;
        if (next) type->tp_iternext = next;
        PyType_Modified(type);
    }
    // Calls its function when asked by the event loop: a method of a task, made in C.
    static PyObject* raftmeta_self_of(PyObject* callback) {
        return PyCFunction_CheckExact(callback) ? PyCFunction_GET_SELF(callback) : NULL;
    }
    static void raftmeta_stop_with(PyObject* value) {
        PyObject* stop = PyObject_CallFunctionObjArgs(PyExc_StopIteration, value, NULL);
        if (stop) PyErr_SetObject(PyExc_StopIteration, stop);
        Py_XDECREF(stop);
    }
    """
    ctypedef enum PySendResult:
        PYGEN_RETURN
        PYGEN_ERROR
        PYGEN_NEXT
    ctypedef PySendResult (*sendfunc)(PyObject*, PyObject*, PyObject**) except PYGEN_ERROR
    ctypedef PyObject* (*iternextfunc)(PyObject*) except? NULL
    void raftmeta_set_slots(PyTypeObject* type, sendfunc send, iternextfunc next)
    PyObject* raftmeta_self_of(PyObject* callback)
    void raftmeta_stop_with(PyObject* value)

cdef extern from "Python.h":
    int PyContext_Enter(object context) except -1
    int PyContext_Exit(object context) except -1

# Of asyncio, which a process that only blocks never imports.
cdef type _Task = None
cdef object _CancelledError = None
cdef object _InvalidStateError = None


cdef int load_asyncio() except -1:
    global _Task, _CancelledError, _InvalidStateError
    import asyncio

    _Task, _CancelledError, _InvalidStateError = asyncio.Task, asyncio.CancelledError, asyncio.InvalidStateError
    return 0


cdef Call call_create(object event_loop, CallKind kind):
    cdef Call call = Call.__new__(Call)
    call.event_loop = event_loop
    call.kind = kind
    return call


@cython.final
@cython.no_gc
@cython.freelist(1024)
cdef class Call:
    # --- the side of the face -----------------------------------------------------------------------------------------
    cdef bint succeed(self, object value) except -1:
        if self.state != CALL_PENDING:
            return False
        self.state = CALL_DONE
        self.value = value
        if self.callbacks is not None:
            self.wake_soon()
        return self.wakeup is not None

    cdef int fail(self, object error) except -1:
        if self.state != CALL_PENDING:
            return 0
        self.unseen = self.event_loop.create_future()
        self.unseen.set_exception(error)
        return self._end(CALL_FAILED, error)

    cdef int _end(self, CallState state, object error) except -1:
        self.state = state
        self.error = error
        return self.wake_soon()

    cdef int wake(self) except -1:
        context, wakeup = self.context, self.wakeup
        if wakeup is None:
            return 0
        self.context = self.wakeup = None
        PyContext_Enter(context)
        try:
            wakeup(self)
        finally:
            PyContext_Exit(context)
        return 0

    cdef int wake_soon(self) except -1:
        if self.wakeup is not None:
            self.event_loop.call_soon(self.wakeup, self, context=self.context)
            self.wakeup = self.context = None
        callbacks = self.callbacks
        self.callbacks = None
        if callbacks is not None:
            for callback, context in callbacks:
                self.event_loop.call_soon(callback, self, context=context)
        return 0

    cdef int abandon(self) except -1:
        self.wakeup = self.context = self.callbacks = self.repeat = None
        return 0

    cdef int follow(self, object task) except -1:
        self.repeat = task
        task.add_done_callback(self._take_over)
        return 0

    def _take_over(self, task):
        self.repeat = None
        if task.cancelled():
            self.cancel()
        elif task.exception() is not None:
            self.fail(task.exception())
        elif self.succeed(task.result()):
            self.wake_soon()

    # --- the side of a task that awaits it ----------------------------------------------------------------------------
    def __await__(self):
        return self

    def __next__(self):
        if self.state == CALL_PENDING:
            self.is_blocking = True
            return self
        raise StopIteration(self.result())

    @property
    def _asyncio_future_blocking(self):
        return self.is_blocking

    @_asyncio_future_blocking.setter
    def _asyncio_future_blocking(self, bint is_blocking):
        self.is_blocking = is_blocking

    # --- the side of everybody else: asyncio.Future -------------------------------------------------------------------
    def get_loop(self):
        return self.event_loop

    def done(self):
        return self.state != CALL_PENDING

    def cancelled(self):
        return self.state == CALL_CANCELLED

    def result(self):
        if self.state == CALL_DONE:
            return self.value
        if self.state == CALL_PENDING:
            raise _InvalidStateError("the call is not answered yet")
        self._see()
        raise self.error

    def exception(self):
        if self.state == CALL_PENDING:
            raise _InvalidStateError("the call is not answered yet")
        self._see()
        if self.state == CALL_CANCELLED:
            raise self.error
        return self.error

    def _see(self):
        if self.unseen is not None:
            self.unseen.exception()
            self.unseen = None

    def cancel(self, msg=None):
        if self.state != CALL_PENDING:
            return False
        self._end(CALL_CANCELLED, _CancelledError() if msg is None else _CancelledError(msg))
        if self.repeat is not None:
            self.repeat.cancel()
        return True

    def add_done_callback(self, callback, *, context=None):
        cdef PyObject* task = raftmeta_self_of(<PyObject*>callback)
        if self.state != CALL_PENDING:
            self.event_loop.call_soon(callback, self, context=context)
        elif self.wakeup is None and context is not None and task != NULL and isinstance(<object>task, _Task):
            self.wakeup = callback
            self.context = context
        else:
            if self.callbacks is None:
                self.callbacks = []
            self.callbacks.append((callback, context))

    def remove_done_callback(self, callback):
        kept = [item for item in self.callbacks or () if item[0] != callback]
        removed = len(self.callbacks or ()) - len(kept)
        self.callbacks = kept or None
        if self.wakeup is not None and self.wakeup == callback:
            self.wakeup = self.context = None
            removed += 1
        return removed

    def __repr__(self):
        return f"<Call {('pending', 'done', 'failed', 'cancelled')[<int>self.state]}>"


@cython.final
@cython.no_gc
@cython.freelist(1024)
cdef class Submitted:
    def __await__(self):
        return self.call

    def send(self, _value):
        return self.call.__next__()

    def throw(self, kind, value=None, traceback=None):
        if value is None:
            value = kind if isinstance(kind, BaseException) else kind()
        raise value if traceback is None else value.with_traceback(traceback)

    def close(self):
        pass        # what is submitted goes on


cdef Submitted submitted(Call call):
    cdef Submitted coroutine = Submitted.__new__(Submitted)
    coroutine.call = call
    return coroutine


# --- slots ------------------------------------------------------------------------------------------------------------
cdef PySendResult _step(Call call, PyObject** result) except PYGEN_ERROR:
    result[0] = NULL
    if call.state == CALL_PENDING:
        call.is_blocking = True
        value = call
    else:
        value = call.value if call.state == CALL_DONE else call.result()
    Py_INCREF(value)
    result[0] = <PyObject*>value
    return PYGEN_NEXT if value is call else PYGEN_RETURN


cdef PySendResult _send(PyObject* self, PyObject* _argument, PyObject** result) except PYGEN_ERROR:
    return _step(<Call>self, result)


cdef PySendResult _send_submitted(PyObject* self, PyObject* _argument, PyObject** result) except PYGEN_ERROR:
    return _step((<Submitted>self).call, result)


cdef PyObject* _next(PyObject* self) except? NULL:
    cdef PyObject* result
    if _step(<Call>self, &result) == PYGEN_NEXT:
        return result
    value = <object>result
    Py_DECREF(value)
    raftmeta_stop_with(<PyObject*>value)
    return NULL


raftmeta_set_slots(<PyTypeObject*>Call, _send, _next)
raftmeta_set_slots(<PyTypeObject*>Submitted, _send_submitted, NULL)
