"""The engine's part in comparing states: bodies.

It decides that this node stops when it is wrong. It must never stop it because a minority says so, or for a
point that it has not applied itself.
"""

from libc.stdint cimport uint8_t, uint32_t

from raftmeta._core cimport core_membership
from raftmeta.engine.divergence cimport STATE_IS_WRONG, STATES_AGREE, Verdict, divergence_judge, divergence_note
from raftmeta.engine.sending cimport send_mark
from raftmeta.engine.state cimport EVENT_STATE_DIVERGED
from raftmeta.machine.machine cimport MachineStatus, machine_status
from raftmeta.native.intrinsics cimport Hash128
from raftmeta.status cimport OK, STATE_DIVERGED
from raftmeta.wire.state_messages cimport StateMark, state_mark_decode


cdef status_t _judge(Engine* engine, index_t index) noexcept nogil:
    cdef Hash128 other
    cdef Verdict verdict = divergence_judge(&engine.divergence, core_membership(engine.core), index, &other)
    if verdict == STATES_AGREE:
        return OK
    if engine.divergence.told < index or verdict == STATE_IS_WRONG:     # the last word on it is told, too
        engine.counters.state_differences += engine.divergence.told < index
        engine.divergence.told = index
        engine.callers.event(engine.callers.self, EVENT_STATE_DIVERGED, index, verdict == STATE_IS_WRONG, other.low)
    return STATE_DIVERGED if verdict == STATE_IS_WRONG else OK


cdef status_t state_check_applied(Engine* engine, index_t index) noexcept nogil:
    cdef MachineStatus machine
    cdef StateMark mark
    machine_status(engine.machine, &machine)
    mark.index = index
    mark.hash = machine.state_hash
    divergence_note(&engine.divergence, engine.id, engine.id, &mark)
    if not engine.config.core.is_observer:      # members compare among themselves; an observer looks whether it agrees
        engine.counters.states_compared += 1
        send_mark(engine, &mark)
    return _judge(engine, index)


cdef status_t state_check_heard(Engine* engine, member_id_t peer, const uint8_t* body, uint32_t length) noexcept nogil:
    cdef StateMark mark
    cdef status_t status = state_mark_decode(body, length, &mark)
    if status != OK:
        return status
    # A mark of no point is no harm: that member counts in other intervals.
    if engine.core == NULL or divergence_note(&engine.divergence, engine.id, peer, &mark) != OK:
        return OK
    return _judge(engine, mark.index)
