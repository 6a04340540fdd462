"""The Kafka door's thread: everything that happens to Kafka's clients, one turn at a time.

    _main   while not closing:
        connections_wait        connections, the listener, the mailbox
        desk_look               what the loop published: the leader, the members, the feature level
        connections_look        bytes in: requests begin
        desk_take_mail          answers of the loop go to the requests that asked
        own_take                so do those of a host that keeps the records of topics
        _drain                  a group has changed: those that wait look again
        connections_go_on       those that wait; one write for each connection
        keep_go, brokers_tend   leases that are kept alive; this node's broker
        records_sweep           record logs of topics that are gone
        desk_submit             read rounds; one ring for everything submitted

It decides when to sleep, and when the door serves: while this node has a cluster of the door's feature level, a session
and a watch, and knew a leader lately. It must never touch a Python object, take the GIL, or block in anything but
epoll.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from raftmeta.connections.accounts cimport accounts_sweep
from raftmeta.connections.connections cimport connections_sweep
from raftmeta.connections.state cimport TUNE_READ_BYTES
from raftmeta.connections.turns cimport (connections_close_all, connections_go_on, connections_look, connections_rest,
                                         connections_start, connections_wait)
from raftmeta.doors.desk.desk cimport (desk_end, desk_is_lonely, desk_look, desk_open_mail, desk_prepare, desk_release,
                                       desk_submit, desk_take_mail, desk_unpin, desk_unwatch, desk_watch)
from raftmeta.doors.desk.state cimport Desk, DeskRules, DeskTask
from raftmeta.doors.desk.tasks cimport desk_session_lost, sequence_done, task_free
from raftmeta.doors.kafka.access cimport access_look
from raftmeta.doors.kafka.brokers cimport brokers_answered, brokers_tend
from raftmeta.doors.kafka.connections cimport connections_fail_all, kafka_rules
from raftmeta.doors.kafka.group_state cimport group_root
from raftmeta.doors.kafka.keep cimport keep_go
from raftmeta.doors.kafka.own_asks cimport own_attach, own_detach, own_submit, own_take
from raftmeta.doors.kafka.records_sweep cimport records_sweep
from raftmeta.doors.kafka.records_topic cimport topic_logs_end
from raftmeta.doors.kafka.requests cimport requests_answered, requests_release
from raftmeta.doors.kafka.sasl cimport sasl_prepare
from raftmeta.doors.kafka.state cimport (KAFKA_FRAME_BYTES_MAX, TASK_BROKER, TASK_DROP, TASK_KEEP, TASK_REQUEST,
                                         KafkaConnection, KafkaTask)
from raftmeta.engine.state cimport ENGINE_RUNNING
from raftmeta.loop.loop cimport READER_KAFKA
from raftmeta.machine.state cimport LEVEL_OF_JOIN_LEASES
from raftmeta.machine.watches cimport (WATCH_EVENTS, WATCH_PROGRESS_MARK, WatchView, watch_look, watch_pass,
                                       watch_reached)
from raftmeta.native.atomics cimport load_shared
from raftmeta.net.posix cimport close
from raftmeta.security.audit_queue cimport AUDIT_BY_KAFKA, AUDIT_PORT_KAFKA
from raftmeta.status cimport SESSION_UNKNOWN
from raftmeta.wire.commands cimport Bytes

cdef enum:
    TUNE_SWEEP_NS = 1_000_000_000
    UNREAD_NS = 30_000_000_000      # so long a client may leave what it was sent
    UNREAD_PRESSED_NS = 250_000_000     # the same while others wait for room
    LONELY_NS = 2_000_000_000       # without a leader for so long: clients are sent elsewhere
    LONGEST_WAIT_MS = 100
    PAUSE_MS = 5


# --- what the loop published ------------------------------------------------------------------------------------------
cdef void _judge(KafkaDoor* door) noexcept nogil:
    cdef bint was_serving = door.is_serving
    cdef Bytes start = group_root()
    cdef Bytes end = topic_logs_end()   # groups stand before record logs; what lies between changes nothing here
    desk_watch(&door.desk, &start, &end)
    door.is_lonely = desk_is_lonely(&door.desk, LONELY_NS)
    door.is_serving = (not door.is_lonely and door.desk.watch != NULL and door.desk.session != 0
                       and door.desk.status.engine_state == ENGINE_RUNNING
                       and door.desk.status.machine.feature_level >= LEVEL_OF_JOIN_LEASES
                       and not door.desk.status.core.is_removed)
    if was_serving and not door.is_serving and (door.is_lonely or door.desk.status.core.is_removed):
        connections_fail_all(door)


# --- answers of the loop ----------------------------------------------------------------------------------------------
cdef void _answered(Desk* desk, DeskTask* base) noexcept nogil:
    cdef KafkaDoor* door = <KafkaDoor*>desk
    cdef KafkaTask* task = <KafkaTask*>base
    if base.kind == TASK_REQUEST:
        requests_answered(door, task)
        return
    sequence_done(desk, base)
    if base.ticket.status == SESSION_UNKNOWN and base.session == desk.session:
        desk_session_lost(desk)
    if base.kind == TASK_KEEP:
        door.keeps -= 1
    elif base.kind == TASK_DROP:
        door.drops -= 1
    elif base.kind == TASK_BROKER and not load_shared(&desk.base.is_closing):
        brokers_answered(door, task)
    task_free(desk, base)


cdef DeskRules RULES
RULES.task_bytes = sizeof(KafkaTask)
RULES.sent = NULL
RULES.returned = NULL
RULES.answered = _answered
RULES.woken = NULL


# The events say only that it is time to look: the state shows what became of a group. A watch that has lagged, or was
# cut, begins anew.
cdef void _drain(KafkaDoor* door) noexcept nogil:
    cdef WatchView view
    if door.desk.watch == NULL:
        return
    watch_reached(door.desk.watch)
    while watch_look(door.desk.watch, &view):
        if view.kind != WATCH_EVENTS and view.kind != WATCH_PROGRESS_MARK:
            door.desk.resume = 0
            watch_pass(door.desk.watch, &view)
            desk_unwatch(&door.desk)
            return
        watch_pass(door.desk.watch, &view)


# --- a turn -----------------------------------------------------------------------------------------------------------
cdef int _timeout_ms(const KafkaDoor* door) noexcept nogil:
    if door.desk.base.dirty.size != 0:
        return 0
    # Clients that wait until the door serves: nothing else rings when the node has a leader and applied enough.
    if door.desk.has_pause or (door.desk.base.waiting.size != 0 and not door.is_serving):
        return PAUSE_MS
    return LONGEST_WAIT_MS


cdef void _tell_counters(KafkaDoor* door) noexcept nogil:
    door.counters.memory = door.desk.base.answer_bytes + door.desk.base.bytes_under_way + door.desk.base.part_bytes
    door.counters.base = door.desk.base.counters
    door.published.write(door.counters)


cdef void _turn(KafkaDoor* door) noexcept nogil:
    desk_look(&door.desk, LEVEL_OF_JOIN_LEASES)
    _judge(door)
    door.desk.has_pause = False
    door.counters.waiting = 0
    connections_look(&door.desk.base)
    desk_take_mail(&door.desk, desk_open_mail(&door.desk))
    own_take(door)
    _drain(door)
    desk_unpin(&door.desk)              # those who wait look at the state behind the answers and changes
    if connections_rest(&door.desk.base):
        connections_sweep(&door.desk.base)
        accounts_sweep(&door.desk.base)
        access_look(door)
    connections_go_on(&door.desk.base)
    keep_go(door)
    brokers_tend(door)
    records_sweep(door)
    desk_unpin(&door.desk)
    desk_submit(&door.desk)
    own_submit(door)
    _tell_counters(door)


cdef void* _main(void* argument) noexcept nogil:
    cdef KafkaDoor* door = <KafkaDoor*>argument
    while not load_shared(&door.desk.base.is_closing):
        connections_wait(&door.desk.base, _timeout_ms(door))
        _turn(door)
    connections_close_all(&door.desk.base)
    desk_end(&door.desk)
    return NULL


# --- life -------------------------------------------------------------------------------------------------------------
cdef void _limit(KafkaDoor* door) noexcept nogil:
    door.desk.base.limits.frame_bytes_max = KAFKA_FRAME_BYTES_MAX
    door.desk.base.limits.part_bytes_max = max(door.desk.base.limits.bytes_under_way_max,
                                               <uint64_t>(KAFKA_FRAME_BYTES_MAX + TUNE_READ_BYTES))
    door.desk.base.limits.unread_ns = UNREAD_NS
    door.desk.base.limits.unread_pressed_ns = UNREAD_PRESSED_NS
    door.desk.base.limits.sweep_ns = TUNE_SWEEP_NS


cdef KafkaDoor* kafka_create(Loop* loop, Accounts* accounts, const ConnectionLimits* common, const DeskLimits* desk,
                             const KafkaLimits* limits, int listener, const uint8_t* host, uint8_t host_length,
                             uint32_t port, OwnLogs* own) noexcept nogil:
    cdef KafkaDoor* door = <KafkaDoor*>calloc(1, sizeof(KafkaDoor))
    if door == NULL:
        close(listener)
        return NULL
    door.desk.base.rules = kafka_rules()
    door.desk.base.accounts = accounts
    door.desk.base.audit_by = AUDIT_BY_KAFKA
    door.desk.base.audit_port = AUDIT_PORT_KAFKA
    door.desk.base.limits = common[0]
    _limit(door)
    door.desk.base.listener = listener
    door.limits = limits[0]
    door.self.port = <int>port
    door.self.host_length = host_length
    memcpy(door.self.host, host, host_length)
    if (not desk_prepare(&door.desk, &RULES, loop, READER_KAFKA, desk, sizeof(KafkaConnection))
            or not sasl_prepare(door) or (own != NULL and not own_attach(door, own))):
        kafka_destroy(door)
        return NULL
    door.connections = <KafkaConnection*>door.desk.base.items
    return door


cdef status_t kafka_start(KafkaDoor* door) noexcept nogil:
    return connections_start(&door.desk.base, _main, b"raftmeta-kafka")


cdef void kafka_destroy(KafkaDoor* door) noexcept nogil:
    connections_close_all(&door.desk.base)
    if door.desk.mailbox != NULL:
        door.desk.base.has_mail = True      # answers that came after the thread ended are of nobody
        desk_take_mail(&door.desk, desk_open_mail(&door.desk))
    requests_release(door)
    own_detach(door)
    desk_release(&door.desk)
    door.brokers.release()
    door.kept.release()
    door.pairs.release()
    door.swept.release()
    door.topic_places.release()
    door.topic_names.release()
    door.request.release()
    free(door)


cdef void kafka_counters(const KafkaDoor* door, KafkaCounters* counters) noexcept nogil:
    while not door.published.read(counters):
        pass
