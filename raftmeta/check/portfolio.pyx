"""Turns, limits, and the exact second look at a negative."""

from libc.stdint cimport int32_t, int64_t, uint64_t
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from raftmeta.check.just_in_time cimport jit_begin, jit_release, jit_run
from raftmeta.check.loaded cimport Component
from raftmeta.check.model cimport model_begin
from raftmeta.check.problem cimport problem_build, problem_link, problem_release
from raftmeta.check.status cimport (ANSWER_ASKS, ANSWER_ILLEGAL, ANSWER_LEGAL, ANSWER_MEMORY, ANSWER_NOT_SHOWN,
                                    ANSWER_RUNNING)
from raftmeta.check.wgl cimport wgl_begin, wgl_release, wgl_run
from raftmeta.check.witness cimport witness_begin, witness_release, witness_run
from raftmeta.status cimport OK

cdef enum:
    TURN_STEPS = 65536          # about a millisecond: between two looks at the clock
    WGL_ALONE_STEPS = 1048576   # what nearly all components need at most; then just-in-time joins in


cdef int64_t monotonic_ns() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <int64_t>now.tv_sec * 1000000000 + now.tv_nsec


cdef bint portfolio_begin(Portfolio* portfolio, Loaded* loaded, int32_t component) noexcept nogil:
    cdef Component* part = &loaded.components.data[component]
    portfolio.outcome.verdict = VERDICT_NONE
    portfolio.outcome.engine = ENGINE_NONE
    portfolio.outcome.limit = LIMIT_NONE
    portfolio.outcome.steps = 0
    portfolio.outcome.elapsed_ns = -monotonic_ns()
    portfolio.turn = ENGINE_NONE
    portfolio.searching = portfolio.engines
    portfolio.is_jit_begun = False
    if part.is_tainted:
        portfolio.outcome.verdict = VERDICT_MALFORMED
        return True
    portfolio.state = model_begin(&loaded.model, part.width, portfolio.initial_value if part.width > 0 else 0)
    return portfolio.state >= 0 and problem_build(
        &portfolio.problem, &loaded.model, loaded.operations.data + part.operation, part.operation_count,
        loaded.events.data + part.event, part.event_count) == OK


cdef Answer portfolio_run(Portfolio* portfolio, Loaded* loaded, int64_t slice_end_ns) noexcept nogil:
    cdef Answer answer
    cdef int64_t now
    while portfolio.outcome.verdict == VERDICT_NONE:
        answer = _take_turn(portfolio, loaded)
        if portfolio.outcome.verdict != VERDICT_NONE:
            break
        now = monotonic_ns()
        if portfolio.outcome.steps >= portfolio.steps_max:
            _give_up(portfolio, LIMIT_STEPS)
        elif portfolio.outcome.steps >= portfolio.turn_steps:
            _give_up(portfolio, LIMIT_TURN)
        elif portfolio.deadline_ns != 0 and now >= portfolio.deadline_ns:
            _give_up(portfolio, LIMIT_TIME)
        elif answer == ANSWER_ASKS:
            return answer
        elif now >= slice_end_ns:
            return ANSWER_RUNNING
    portfolio.outcome.elapsed_ns += monotonic_ns()
    return ANSWER_LEGAL


# The engine whose turn it is, as far as one turn goes, and what follows from its answer.
cdef Answer _take_turn(Portfolio* portfolio, Loaded* loaded) noexcept nogil:
    cdef Answer answer
    cdef Engine engine = _engine(portfolio)
    if engine == ENGINE_NONE:
        _give_up(portfolio, LIMIT_MEMORY)
        return ANSWER_LEGAL
    if engine == ENGINE_WITNESS:
        answer = _run_witness(portfolio, loaded)
    elif engine == ENGINE_WGL:
        answer = _run_wgl(portfolio, loaded)
    else:
        answer = _run_just_in_time(portfolio, loaded)
    if answer == ANSWER_LEGAL:
        _decide(portfolio, VERDICT_OK, engine)
    elif answer == ANSWER_ILLEGAL:
        if engine == ENGINE_WGL and not portfolio.wgl.is_exact:
            _look_again(portfolio)
        else:
            _decide(portfolio, VERDICT_VIOLATION, engine)
    elif answer == ANSWER_MEMORY or answer == ANSWER_NOT_SHOWN:
        portfolio.searching &= ~_use(engine)
    return answer


cdef inline int32_t _use(Engine engine) noexcept nogil:
    return USE_WITNESS if engine == ENGINE_WITNESS else USE_WGL if engine == ENGINE_WGL else USE_JUST_IN_TIME


# Whose turn it is, among those that have not given up.
cdef Engine _engine(Portfolio* portfolio) noexcept nogil:
    cdef bint is_joined = portfolio.outcome.steps >= WGL_ALONE_STEPS or not portfolio.searching & USE_WGL
    if portfolio.searching & USE_WITNESS:
        return ENGINE_WITNESS
    if portfolio.searching & USE_WGL and not (is_joined and portfolio.turn == ENGINE_WGL
                                              and portfolio.searching & USE_JUST_IN_TIME):
        return ENGINE_WGL
    return ENGINE_JUST_IN_TIME if portfolio.searching & USE_JUST_IN_TIME else ENGINE_NONE


cdef inline void _decide(Portfolio* portfolio, Verdict verdict, Engine engine) noexcept nogil:
    portfolio.outcome.verdict = verdict
    portfolio.outcome.engine = engine


cdef inline void _give_up(Portfolio* portfolio, Limit limit) noexcept nogil:
    portfolio.outcome.verdict = VERDICT_UNKNOWN
    portfolio.outcome.limit = limit


cdef Answer _run_witness(Portfolio* portfolio, Loaded* loaded) noexcept nogil:
    cdef Answer answer = ANSWER_LEGAL
    if portfolio.turn != ENGINE_WITNESS:
        portfolio.turn = ENGINE_WITNESS
        answer = witness_begin(&portfolio.witness, &portfolio.problem, portfolio.state)
    if answer == ANSWER_LEGAL:
        answer = witness_run(&portfolio.witness, &portfolio.problem, &loaded.model)
    return answer


cdef Answer _run_wgl(Portfolio* portfolio, Loaded* loaded) noexcept nogil:
    cdef uint64_t before
    cdef Answer answer
    if portfolio.turn <= ENGINE_WITNESS and not wgl_begin(&portfolio.wgl, &portfolio.problem, portfolio.state,
                                                          portfolio.bytes_max, False):
        return ANSWER_MEMORY
    portfolio.turn = ENGINE_WGL
    before = portfolio.wgl.steps
    answer = wgl_run(&portfolio.wgl, &portfolio.problem, &loaded.model, TURN_STEPS)
    portfolio.outcome.steps += portfolio.wgl.steps - before
    return answer


cdef Answer _run_just_in_time(Portfolio* portfolio, Loaded* loaded) noexcept nogil:
    cdef uint64_t before
    cdef Answer answer
    if not portfolio.is_jit_begun:
        portfolio.is_jit_begun = True
        portfolio.jit.keeps_window = False
        if not jit_begin(&portfolio.jit, &portfolio.problem, &portfolio.state, 1, portfolio.bytes_max):
            return ANSWER_MEMORY
    portfolio.turn = ENGINE_JUST_IN_TIME
    before = portfolio.jit.steps
    answer = jit_run(&portfolio.jit, &portfolio.problem, &loaded.model, TURN_STEPS)
    portfolio.outcome.steps += portfolio.jit.steps - before
    return answer


# The same search with the sets themselves as keys.
cdef void _look_again(Portfolio* portfolio) noexcept nogil:
    problem_link(&portfolio.problem)
    if not wgl_begin(&portfolio.wgl, &portfolio.problem, portfolio.state, portfolio.bytes_max, True):
        portfolio.searching &= ~USE_WGL


cdef void portfolio_release(Portfolio* portfolio) noexcept nogil:
    problem_release(&portfolio.problem)
    witness_release(&portfolio.witness)
    wgl_release(&portfolio.wgl)
    jit_release(&portfolio.jit)
