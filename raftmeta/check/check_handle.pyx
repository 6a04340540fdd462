"""The checker for Python: columns in, verdicts out, without the GIL between them.

run() goes through all components, in turns; it comes back when a slice of time is over, so that Ctrl-C works, and
when a model written in Python must say what an operation does. search_...() is the breadth-first engine alone, on any
selection of the operations of one component: counterexamples are made of it.
"""
from libc.stddef cimport size_t
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from raftmeta.check.grouping cimport Grouping, group_release, group_rows
from raftmeta.check.interner cimport Interner, interner_number
from raftmeta.check.json_text cimport Text
from raftmeta.check.just_in_time cimport JustInTime, jit_begin, jit_release, jit_run
from raftmeta.check.load cimport EVENT_INVOKE, Columns, Component, Loaded, TextColumn, load, load_release
from raftmeta.check.model cimport EXPECTED_FALSE, NEVER, STATE_ILLEGAL, Micro, Model, Operation, model_answer
from raftmeta.check.objects cimport OBJECT_COUNTER, OBJECT_TEXT, Object, object_begin
from raftmeta.check.portfolio cimport (ENGINE_WGL, ENGINE_WITNESS, LIMIT_NONE, LIMIT_TIME, LIMIT_TURN, LIMIT_VIOLATION,
                                       VERDICT_MALFORMED, VERDICT_NONE, VERDICT_OK, VERDICT_UNKNOWN, VERDICT_VIOLATION,
                                       Outcome, Portfolio, monotonic_ns, portfolio_begin, portfolio_release,
                                       portfolio_run)
from raftmeta.check.problem cimport Problem, problem_build, problem_release
from raftmeta.check.status cimport (ANSWER_ASKS, ANSWER_ILLEGAL, ANSWER_LEGAL, ANSWER_MEMORY, ANSWER_RUNNING, NONE,
                                    Answer)
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport OK, status_t

RUNNING = ANSWER_RUNNING
LEGAL = ANSWER_LEGAL
ILLEGAL = ANSWER_ILLEGAL
ASKS = ANSWER_ASKS
MEMORY = ANSWER_MEMORY

cdef enum:
    SEARCH_STEPS = 65536
    TURN_STEPS_FIRST = 131072   # TUNE_: of the first turn of a component, about two milliseconds
    TURN_GROWTH = 8             # TUNE_: each turn has so many times the steps of the one before


cdef object _text(const Interner* interner, int32_t number):
    cdef const uint8_t* bytes = interner.bytes.data + interner.texts.data[number].offset
    return (<const char*>bytes)[:interner.texts.data[number].length]


# Where the search stands: component `next` of a turn, of which `open_` components so far need another one.
cdef struct Turns:
    size_t next
    size_t open_
    bint is_begun
    bint is_over            # the deadline has passed, or a violation decides the history: no more turns
    bint stops_at_violation
    bint has_violation


# Everything between two looks of Python: the rest of this component, and those after it.
cdef Answer _run(Portfolio* portfolio, Loaded* loaded, Vec[Outcome]* outcomes, Turns* turns,
                 int64_t slice_end_ns) noexcept nogil:
    cdef Answer answer
    while turns.next < outcomes.size or turns.open_ > 0:
        if turns.next == outcomes.size:
            turns.next = turns.open_ = 0
            turns.is_over = turns.has_violation and turns.stops_at_violation
            portfolio.turn_steps *= TURN_GROWTH
        if outcomes.data[turns.next].verdict != VERDICT_NONE:
            turns.next += 1
            continue
        if not turns.is_begun:
            if _is_given_up(portfolio, turns, &outcomes.data[turns.next]):
                turns.next += 1
                continue
            if not portfolio_begin(portfolio, loaded, <int32_t>turns.next):
                return ANSWER_MEMORY
            turns.is_begun = True
        answer = portfolio_run(portfolio, loaded, slice_end_ns)
        if answer != ANSWER_LEGAL:
            return answer
        _keep(portfolio, turns, &outcomes.data[turns.next])
        turns.is_begun = False
        turns.next += 1
    return ANSWER_LEGAL


# No turn is left for a component: time is over, or the verdict on the history is known.
cdef bint _is_given_up(const Portfolio* portfolio, const Turns* turns, Outcome* outcome) noexcept nogil:
    if turns.is_over:
        outcome.limit = LIMIT_VIOLATION
    elif portfolio.deadline_ns != 0 and monotonic_ns() >= portfolio.deadline_ns:
        outcome.limit = LIMIT_TIME
    else:
        return False
    outcome.verdict = VERDICT_UNKNOWN
    return True


cdef void _keep(const Portfolio* portfolio, Turns* turns, Outcome* outcome) noexcept nogil:
    cdef int64_t before_ns = outcome.elapsed_ns
    outcome[0] = portfolio.outcome
    outcome.elapsed_ns += before_ns
    if outcome.limit == LIMIT_TURN:
        outcome.verdict = VERDICT_NONE
        outcome.limit = LIMIT_NONE
        turns.open_ += 1
    turns.has_violation = turns.has_violation or outcome.verdict == VERDICT_VIOLATION


cdef Answer _search(JustInTime* jit, const Problem* problem, Model* model, int64_t slice_end_ns) noexcept nogil:
    cdef Answer answer = ANSWER_RUNNING
    while answer == ANSWER_RUNNING and monotonic_ns() < slice_end_ns:
        answer = jit_run(jit, problem, model, SEARCH_STEPS)
    return answer


# Of a decisive operation: what its key holds afterwards.
cdef int32_t _value_after(const Model* model, const Operation* operation):
    cdef int32_t last = operation.guard_count - 1
    if operation.expected == EXPECTED_FALSE:
        last += operation.then_count + operation.else_count
    else:
        last += operation.then_count
    return model.micros.data[operation.micro + last].value


cdef class CheckHandle:
    """A history that was loaded: its components, their verdicts, and searches in them."""
    cdef Loaded _loaded
    cdef Portfolio _portfolio
    cdef Vec[Outcome] _outcomes
    cdef Object _object
    cdef Turns _turns
    cdef Problem _problem
    cdef JustInTime _jit
    cdef int32_t _searched      # the component of the search
    cdef list _selected         # its operations
    cdef Grouping _grouping
    cdef tuple _borrowed

    def __init__(self, tuple numbers, tuple texts, bytes meanings, *, bint is_table, int32_t object_kind=0,
                 bytes initial=b"null", uint64_t steps_max, size_t bytes_max, int64_t time_ns=0, int32_t engines=7,
                 bint stops_at_violation=False):
        cdef Columns* columns = &self._loaded.columns
        cdef const int64_t[::1] seq = numbers[0]
        cdef const int64_t[::1] process = numbers[1]
        cdef const int8_t[::1] kind = numbers[2]
        cdef const int32_t[::1] operation = numbers[3]
        cdef const int64_t[::1] revision = numbers[4]
        cdef status_t status
        if self._borrowed is not None:
            raise RuntimeError("this handle was loaded already")
        self._borrowed = (seq, process, kind, operation, revision, texts, meanings)
        columns.rows = seq.shape[0]
        if columns.rows >= NEVER:
            raise ValueError(f"{columns.rows} events; at most {NEVER - 1} can be checked at once")
        if not process.shape[0] == kind.shape[0] == operation.shape[0] == revision.shape[0] == columns.rows:
            raise ValueError("columns of different lengths")
        if columns.rows > 0:
            columns.seq = &seq[0]
            columns.process = &process[0]
            columns.kind = &kind[0]
            columns.operation = &operation[0]
            columns.revision = &revision[0]
        self._borrow_text(&columns.key, texts[0])
        self._borrow_text(&columns.arguments, texts[1])
        self._borrow_text(&columns.result, texts[2])
        self._loaded.meanings = <const int8_t*><const char*>meanings
        self._loaded.code_count = <int32_t>len(meanings)
        self._loaded.model.width = 0 if is_table or object_kind else 1
        self._object = <Object>object_kind
        if object_kind:
            self._begin_object(initial)
        with nogil:
            status = load(&self._loaded)
        if status != OK or not self._outcomes.resize(self._loaded.components.size):
            raise MemoryError("no memory for the operations of this history")
        self._turns.stops_at_violation = stops_at_violation
        self._portfolio.turn_steps = TURN_STEPS_FIRST
        self._portfolio.steps_max = steps_max
        self._portfolio.bytes_max = bytes_max
        self._portfolio.engines = engines
        self._portfolio.deadline_ns = monotonic_ns() + time_ns if time_ns else 0
        self._portfolio.initial_value = interner_number(&self._loaded.values, <const uint8_t*><const char*>initial,
                                                        len(initial))

    def __dealloc__(self):
        load_release(&self._loaded)
        group_release(&self._grouping)
        portfolio_release(&self._portfolio)
        problem_release(&self._problem)
        jit_release(&self._jit)
        self._outcomes.release()

    cdef _begin_object(self, bytes initial):
        cdef int32_t begun
        cdef Text text
        text.bytes = <const uint8_t*><const char*>initial
        text.length = len(initial)
        # "null" has the number 0 before anything else has one.
        if interner_number(&self._loaded.values, <const uint8_t*>"null", 4) != 0:
            raise MemoryError("no memory for the operations of this history")
        begun = object_begin(&self._loaded.model, &self._loaded.values, self._object, text)
        if begun > 0:
            raise ValueError(f"initial: this model cannot begin with {initial.decode()}")
        if begun < 0:
            raise MemoryError("no memory for the operations of this history")

    cdef _borrow_text(self, TextColumn* column, tuple given):
        cdef const int64_t[::1] offsets = given[0]
        cdef const uint8_t[::1] data = given[1]
        cdef int64_t row
        if offsets.shape[0] != self._loaded.columns.rows + 1:
            raise ValueError("a column of texts needs one offset more than there are events")
        if offsets[0] < 0 or offsets[self._loaded.columns.rows] > data.shape[0]:
            raise ValueError("offsets of texts lie outside of their bytes")
        for row in range(self._loaded.columns.rows):
            if offsets[row] > offsets[row + 1]:
                raise ValueError(f"offsets of texts descend at event {row}")
        column.offsets = &offsets[0]
        column.bytes = &data[0] if data.shape[0] > 0 else NULL
        self._borrowed += (offsets, data)

    @property
    def components(self):
        return <int64_t>self._loaded.components.size

    @property
    def operations(self):
        return <int64_t>self._loaded.operations.size

    @property
    def failed(self):
        return self._loaded.failed

    @property
    def unaffecting(self):
        return self._loaded.unaffecting

    def malformed(self):
        cdef size_t position
        return [(self._loaded.malformed.data[position].row, <int>self._loaded.malformed.data[position].reason)
                for position in range(self._loaded.malformed.size)]

    def run(self, double slice_s):
        cdef Answer answer
        cdef int64_t end_ns = monotonic_ns() + <int64_t>(slice_s * 1e9)
        with nogil:
            answer = _run(&self._portfolio, &self._loaded, &self._outcomes, &self._turns, end_ns)
        if answer == ANSWER_MEMORY:
            raise MemoryError("no memory to search")
        return <int>answer

    def asked(self):
        cdef bytes head = _text(&self._loaded.kinds, self._loaded.model.asked_kind)
        cdef int32_t[3] numbers
        memcpy(numbers, <const char*>head, sizeof(numbers))
        end = 12 + numbers[2]
        return self._loaded.model.asked_state, numbers[0], bool(numbers[1]), head[12:end], head[end:]

    def answer(self, object state):
        if not model_answer(&self._loaded.model, STATE_ILLEGAL if state is None else <int32_t>state):
            raise MemoryError("no memory for another transition")

    def reject(self):
        self._portfolio.outcome.verdict = VERDICT_MALFORMED

    def outcome(self, int32_t component):
        cdef Outcome* outcome
        cdef Component* part
        if not 0 <= component < <int64_t>self._outcomes.size:
            raise IndexError(component)
        outcome = &self._outcomes.data[component]
        if outcome.verdict == VERDICT_NONE:
            raise IndexError(component)
        part = &self._loaded.components.data[component]
        return (<int>outcome.verdict, <int>outcome.engine, <int>outcome.limit, outcome.steps, outcome.elapsed_ns,
                part.operation_count)

    def not_ok(self):
        cdef size_t component
        return [component for component in range(self._outcomes.size)
                if self._outcomes.data[component].verdict != VERDICT_OK]

    def engines(self):
        cdef int64_t[4] counts
        cdef size_t component
        for component in range(4):
            counts[component] = 0
        for component in range(self._outcomes.size):
            counts[<int>self._outcomes.data[component].engine] += 1
        return tuple(counts)

    def steps(self):
        cdef size_t component
        cdef uint64_t total = 0
        for component in range(self._outcomes.size):
            total += self._outcomes.data[component].steps
        return total

    def keys(self, int32_t component):
        cdef int32_t key
        found = []
        if not 0 <= component < <int64_t>self._loaded.components.size:
            raise IndexError(component)
        key = self._loaded.components.data[component].key
        while key != NONE:
            found.append(_text(&self._loaded.keys, key))
            key = self._loaded.key_after.data[key]
        return found

    def operation(self, int32_t component, int32_t number):
        cdef Component* part = self._part(component)
        cdef Operation* operation
        if not 0 <= number < part.operation_count:
            raise IndexError(number)
        operation = &self._loaded.operations.data[part.operation + number]
        return (operation.called_at, None if operation.completed_at == NEVER else operation.completed_at,
                bool(operation.can_change))

    # Which of these may be taken away: if all of them have a linearization, the rest has one too.
    def removable(self, int32_t component, list numbers):
        cdef Component* part = self._part(component)
        cdef Operation* operation
        cdef const Micro* micro
        cdef int32_t number, index
        cdef set noticed = set()
        cdef bint has_refusals = part.width != 1
        written = {}
        found = []
        for number in numbers:
            operation = &self._loaded.operations.data[part.operation + number]
            has_refusals = has_refusals or operation.expected == EXPECTED_FALSE or operation.else_count > 0
            for index in range(operation.guard_count + operation.then_count + operation.else_count):
                micro = &self._loaded.model.micros.data[operation.micro + index]
                if not micro.is_write:
                    noticed.add(micro.value)
                written[number] = micro.value
        for number in numbers:
            operation = &self._loaded.operations.data[part.operation + number]
            if not operation.can_change or not has_refusals and operation.guard_count == 0 and (
                    operation.then_count == 1 and written[number] not in noticed):
                found.append(number)
        return found

    def state_values(self, int32_t component, int32_t state):
        cdef int32_t slot
        cdef int32_t width = self._part(component).width
        cdef size_t first = <size_t>state * width
        if width <= 1:
            return [_text(&self._loaded.values, state)]
        return [_text(&self._loaded.values, self._loaded.model.vectors.data[first + slot]) for slot in range(width)]

    def object_state(self, int32_t state):
        cdef const int32_t* numbers
        cdef int32_t position
        cdef int64_t number
        cdef bytes raw = _text(&self._loaded.model.states, state)
        if self._object == OBJECT_TEXT:
            return [b'"' + raw + b'"']
        if self._object == OBJECT_COUNTER:
            memcpy(&number, <const char*>raw, sizeof(number))
            return [str(number).encode()]
        numbers = <const int32_t*><const char*>raw
        return [_text(&self._loaded.values, numbers[position]) for position in range(<int32_t>(len(raw) // 4))]

    def order(self):
        cdef size_t position
        cdef Vec[int32_t]* order = NULL
        if self._portfolio.outcome.engine == ENGINE_WITNESS:
            order = &self._portfolio.witness.order
        elif self._portfolio.outcome.engine == ENGINE_WGL:
            order = &self._portfolio.wgl.order
        if order == NULL:
            return None
        return [self._portfolio.problem.numbers.data[order.data[position]] for position in range(order.size)]

    cdef Component* _part(self, int32_t component) except NULL:
        if not 0 <= component < <int64_t>self._loaded.components.size:
            raise IndexError(component)
        return &self._loaded.components.data[component]

    # --- rows that go together ----------------------------------------------------------------------------------------
    def group(self, int64_t rows_max):
        cdef status_t status
        group_release(&self._grouping)
        with nogil:
            status = group_rows(&self._grouping, &self._loaded, rows_max)
        if status != OK:
            raise MemoryError("no memory to group the rows of this history")

    def invocations(self):
        return <bytes>(<const char*>self._grouping.invocation.data)[:self._grouping.invocation.size * sizeof(int32_t)]

    def buckets(self):
        cdef size_t bucket
        cdef int64_t begin = 0
        found = []
        for bucket in range(self._grouping.bucket_ends.size):
            end = self._grouping.bucket_ends.data[bucket]
            found.append(<bytes>(<const char*>(self._grouping.rows.data + begin))[:(end - begin) * sizeof(int32_t)])
            begin = end
        return found

    def outside(self):
        return <bytes>(<const char*>self._grouping.outside.data)[:self._grouping.outside.size * sizeof(int32_t)]

    def tainted(self):
        cdef size_t number
        return [number for number in range(self._loaded.components.size)
                if self._loaded.components.data[number].is_tainted]

    # --- the breadth-first engine alone -------------------------------------------------------------------------------
    def begin(self, int32_t component):
        self._portfolio.outcome.verdict = VERDICT_NONE
        if not portfolio_begin(&self._portfolio, &self._loaded, component) or self._portfolio.state < 0:
            raise MemoryError("no memory to search")
        return self._portfolio.state

    def cuts(self, int32_t component):
        cdef dict decided = {}
        cdef int64_t row
        cdef int64_t under_way = 0
        cdef int32_t local
        cdef Operation* operation
        found = []
        self.begin(component)
        if self._portfolio.outcome.verdict != VERDICT_NONE:
            return found        # malformed: its problem was not even built
        for local in range(<int32_t>self._portfolio.problem.operations.size):
            if self._portfolio.problem.is_decisive.data[local]:
                operation = &self._portfolio.problem.operations.data[local]
                decided[operation.completed_at] = _value_after(&self._loaded.model, operation)
        # Operations that were left out must not be torn apart either.
        for row in range(self._loaded.columns.rows):
            under_way += 1 if self._loaded.columns.kind[row] == EVENT_INVOKE else -1
            if under_way == 0 and row in decided:
                found.append((row, _text(&self._loaded.values, decided[row])))
        return found

    def search_begin(self, int32_t component, list numbers, list states):
        cdef Component* part = self._part(component)
        cdef int32_t count = <int32_t>len(numbers)
        cdef Operation* operations = <Operation*>calloc(count + 1, sizeof(Operation))
        cdef int32_t* events = <int32_t*>calloc(2 * count + 1, sizeof(int32_t))
        cdef int32_t* given = <int32_t*>calloc(len(states) + 1, sizeof(int32_t))
        cdef int32_t event_count = 0
        cdef int32_t position, event, number
        cdef dict places = {number: place for place, number in enumerate(numbers)}
        cdef bint is_begun = False
        try:
            if operations == NULL or events == NULL or given == NULL:
                raise MemoryError("no memory to search")
            for position in range(count):
                operations[position] = self._loaded.operations.data[part.operation + <int32_t>numbers[position]]
            for position in range(part.event_count):
                event = self._loaded.events.data[part.event + position]
                number = event if event >= 0 else ~event
                if number in places:
                    events[event_count] = <int32_t>places[number] if event >= 0 else ~<int32_t>places[number]
                    event_count += 1
            for position in range(<int32_t>len(states)):
                given[position] = states[position]
            self._jit.keeps_window = True
            is_begun = (problem_build(&self._problem, &self._loaded.model, operations, count, events,
                                      event_count) == OK
                        and jit_begin(&self._jit, &self._problem, given, <int32_t>len(states),
                                      self._portfolio.bytes_max))
        finally:
            free(operations)
            free(events)
            free(given)
        if not is_begun:
            raise MemoryError("no memory to search")
        self._searched = component
        self._selected = list(numbers)

    def search_run(self, double slice_s):
        cdef Answer answer
        cdef int64_t end_ns = monotonic_ns() + <int64_t>(slice_s * 1e9)
        with nogil:
            answer = _search(&self._jit, &self._problem, &self._loaded.model, end_ns)
        return <int>answer

    def search_failed(self):
        return self._number(~self._problem.nodes.data[self._jit.event].operation)

    def search_before(self):
        return [self._configuration(self._jit.now.rows.data + <size_t>row * self._jit.stride)
                for row in range(self._jit.settled)]

    def search_window(self):
        cdef size_t rows = self._jit.window_rows.size // self._jit.stride
        cdef int32_t position, local
        numbers = []
        for position in range(self._jit.event):
            local = self._problem.nodes.data[position].operation
            if local >= 0 and (position >= self._jit.window_event
                               or self._problem.operations.data[local].completed_at == NEVER):
                numbers.append(self._number(local))
        return numbers, [self._configuration(self._jit.window_rows.data + row * self._jit.stride)
                         for row in range(rows)]

    cdef int32_t _number(self, int32_t local) except -1:
        return self._selected[self._problem.numbers.data[local]]

    # The state, and which operations under way have taken effect in it. Bits of completed ones that are over are zero.
    cdef tuple _configuration(self, const uint64_t* row):
        cdef int32_t local, word, bit
        taken = []
        for local in range(<int32_t>self._problem.operations.size):
            if self._problem.invocation.data[local] > self._jit.event:
                break
            bit = self._problem.bit.data[local]
            if self._problem.operations.data[local].completed_at == NEVER:
                word = self._jit.crashed_word + (bit >> 6)
            elif self._problem.nodes.data[self._problem.invocation.data[local]].completion >= self._jit.event:
                word = 1 + (bit >> 6)
            else:
                continue
            if row[word] >> (bit & 63) & 1:
                taken.append(self._number(local))
        return <int32_t>row[0], taken
