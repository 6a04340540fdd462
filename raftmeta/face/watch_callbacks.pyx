"""Callbacks of a node's watches, on threads that all of them share; who does what is told in watch_callbacks.pxd.

Why not a thread for each: for one event a thousand of them would wake, one after the other, and each would have to get
the GIL from the one before.
"""

from collections import deque
from functools import partial

from libc.stdint cimport uint32_t, uint64_t

from raftmeta.loop.tickets cimport (Mail, WatchSignal, mailbox_abandon, mailbox_await, mailbox_create, mailbox_ring,
                                    mailbox_take)
from raftmeta.native.atomics cimport add_shared, exchange_shared, load_shared, store_shared, subtract_shared
from raftmeta.native.threads cimport futex_wait, futex_wake

from raftmeta.common.apart import start_apart

cdef uint64_t LONG_NS = 3_600_000_000_000       # whoever has news rings


cdef class WatchCallbacks:
    def __cinit__(self):
        self.open = set()
        self.due = deque()
        self.mailbox = mailbox_create(False)
        if self.mailbox == NULL:
            raise MemoryError

    def __dealloc__(self):
        if self.mailbox != NULL:
            mailbox_abandon(self.mailbox)

    # --- opening and closing ------------------------------------------------------------------------------------------
    cdef int add(self, Callback callback) except -1:
        self.open.add(callback)
        if not self.has_runner:
            self._start_runner()
        return 0

    cdef int remove(self, Callback callback) except -1:
        self._collect()         # its signal may lie in the mailbox
        self.open.discard(callback)
        if not self.open:
            mailbox_ring(self.mailbox)
        return 0

    cdef int look_at(self, Callback callback) except -1:
        self._put_in_line(callback)
        mailbox_ring(self.mailbox)
        return 0

    cdef int stop(self) except -1:
        self._collect()
        self.open.clear()
        mailbox_ring(self.mailbox)
        return 0

    # --- callbacks in line --------------------------------------------------------------------------------------------
    # Whoever has news gets in line.
    cdef int _collect(self) except -1:
        cdef Mail* mail = mailbox_take(self.mailbox)
        cdef Mail* next
        while mail != NULL:
            next = mail.next
            store_shared(&(<WatchSignal*>mail).is_posted, <uint32_t>0)
            self._put_in_line(<Callback>(<WatchSignal*>mail).consumer)
            mail = next
        return 0

    cdef int _put_in_line(self, Callback callback) except -1:
        if callback.is_in_hand:
            callback.has_news = True
        elif not callback.is_in_line and callback in self.open:
            callback.is_in_line = True
            self.due.append(callback)
            store_shared(&self.onlooking.due, <uint32_t>len(self.due))
        return 0

    cdef int _call_next(self) except -1:
        cdef Callback callback = self.due.popleft()
        cdef bint has_more
        store_shared(&self.onlooking.due, <uint32_t>len(self.due))
        callback.is_in_line = callback.has_news = False
        callback.is_in_hand = True
        has_more = callback.call(self)
        callback.is_in_hand = False
        return self._put_in_line(callback) if has_more or callback.has_news else 0

    cdef void on_call(self) noexcept:
        add_shared(&self.onlooking.calls, <uint64_t>1)

    # --- the runner ---------------------------------------------------------------------------------------------------
    cdef int _start_runner(self) except -1:
        self.has_runner = True
        _start_thread(self._run, self._begin_turn())
        return 0

    # The number of a new turn, which has its onlooker; those before find out.
    cdef uint64_t _begin_turn(self) except 0:
        cdef uint64_t turn = add_shared(&self.onlooking.turn, <uint64_t>1)
        _stir(&self.onlooking)
        _start_thread(self._look_on, turn)
        return turn

    def _run(self, uint64_t turn):
        self._run_turn(turn)

    # Until it is relieved, or no callback is open.
    cdef int _run_turn(self, uint64_t turn) except -1:
        self._be_busy()         # a callback may be in line already, and block
        while self.onlooking.turn == turn and self.open:
            self._collect()
            if self.due:
                self._call_next()
            else:
                self._rest()
        if self.onlooking.turn != turn:
            subtract_shared(&self.onlooking.relieved, <uint32_t>1)
            if self.due:
                mailbox_ring(self.mailbox)      # what it had in hand may be in line again, and the runner may rest
            return 0
        self.has_runner = False
        store_shared(&self.onlooking.is_busy, <uint32_t>0)
        add_shared(&self.onlooking.turn, <uint64_t>1)
        _stir(&self.onlooking)
        return 0

    cdef int _rest(self) except -1:
        store_shared(&self.onlooking.is_busy, <uint32_t>0)
        with nogil:
            mailbox_await(self.mailbox, LONG_NS)
        self._be_busy()
        return 0

    cdef void _be_busy(self) noexcept:
        # 1. The runner says that it is busy, 2. looks whether the onlooker sleeps; that one 3. says so, 4. looks
        # whether the runner is busy. In each order of 1 and 3, either 2 or 4 sees the other.
        store_shared(&self.onlooking.is_busy, <uint32_t>1)
        if exchange_shared(&self.onlooking.is_asleep, <uint32_t>0):
            _stir(&self.onlooking)

    # --- the onlooker -------------------------------------------------------------------------------------------------
    def _look_on(self, uint64_t turn):
        cdef uint64_t calls
        cdef bint is_stuck = True
        while is_stuck:
            with nogil:
                is_stuck = _is_found_stuck(&self.onlooking, turn, self.mailbox, &calls)
            if is_stuck and self._relieve(turn, calls):
                return

    # Take over, unless the runner went on while this thread waited for the GIL.
    cdef bint _relieve(self, uint64_t turn, uint64_t calls) except -1:
        self._collect()
        if self.onlooking.turn != turn or self.onlooking.calls != calls or not self.due:
            return False
        add_shared(&self.onlooking.relieved, <uint32_t>1)
        self._run_turn(self._begin_turn())
        return True


cdef class Callback:
    cdef bint call(self, WatchCallbacks callbacks) except -1:
        raise NotImplementedError


# True: its callback did not come back between two looks, and others have news. False: its turn has ended.
cdef bint _is_found_stuck(Onlooking* onlooking, uint64_t turn, Mailbox* mailbox, uint64_t* calls) noexcept nogil:
    cdef uint32_t in_vain = 0, seen
    cdef uint64_t pause_ns
    while load_shared(&onlooking.turn) == turn:
        seen = load_shared(&onlooking.stirred)
        if not load_shared(&onlooking.is_busy) and in_vain >= TUNE_LOOKS_IN_VAIN:
            _sleep(onlooking, turn, seen)
            in_vain = 0
            continue
        calls[0] = load_shared(&onlooking.calls)
        pause_ns = TUNE_LOOK_BEHIND_NS if load_shared(&onlooking.relieved) else TUNE_LOOK_NS
        futex_wait(&onlooking.stirred, seen, pause_ns << min(in_vain // TUNE_LOOKS_IN_VAIN, <uint32_t>4))
        if load_shared(&onlooking.calls) != calls[0]:
            in_vain = 0
        elif (load_shared(&onlooking.is_busy) and load_shared(&onlooking.turn) == turn
                and (load_shared(&onlooking.due) or load_shared(&mailbox.is_rung))):
            return True
        else:
            in_vain += 1
    return False


# Nothing was in hand for a while: until something is (`_rest`).
cdef void _sleep(Onlooking* onlooking, uint64_t turn, uint32_t seen) noexcept nogil:
    store_shared(&onlooking.is_asleep, <uint32_t>1)
    if not load_shared(&onlooking.is_busy) and load_shared(&onlooking.turn) == turn:
        futex_wait(&onlooking.stirred, seen, LONG_NS)
    store_shared(&onlooking.is_asleep, <uint32_t>0)


cdef void _stir(Onlooking* onlooking) noexcept nogil:
    add_shared(&onlooking.stirred, <uint32_t>1)
    futex_wake(&onlooking.stirred, 2)       # one whose turn has ended may not have left yet


cdef int _start_thread(object body, uint64_t turn) except -1:
    start_apart(partial(body, turn), "raftmeta-watch")
    return 0
