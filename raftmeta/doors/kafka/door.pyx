"""The Kafka door's thread: everything that happens to Kafka's clients, one turn at a time.

    _turn
        desk_look               what the loop published: the leader, the members, the feature level
        connections_look        bytes in: requests begin
        desk_take_mail          answers of the loop go to the requests that asked
        own_take                so do those of a host that keeps the records of topics
        thread_drain            a group has changed: those that wait look again
        connections_go_on       those that wait; one write for each connection
        keep_go, brokers_tend   leases that are kept alive; this node's broker
        records_sweep           record logs of topics that are gone
        desk_submit             read rounds; one ring for everything submitted

desk/thread calls it whenever there is something to do. This module decides when the door serves: while this node has a
cluster of the door's feature level, a session and a watch, and knew a leader lately. It must never touch a Python
object, take the GIL, or block in anything but epoll.
"""

from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from raftmeta.connections.accounts cimport accounts_sweep
from raftmeta.connections.connections cimport connections_sweep
from raftmeta.connections.turns cimport connections_go_on, connections_look, connections_rest, connections_start
from raftmeta.doors.desk.desk cimport (desk_is_lonely, desk_look, desk_open_mail, desk_prepare, desk_release,
                                       desk_submit, desk_take_mail, desk_unpin, desk_watch)
from raftmeta.doors.desk.state cimport Desk, DeskRules, DeskTask
from raftmeta.doors.desk.tasks cimport desk_session_lost, sequence_done, task_free
from raftmeta.doors.desk.thread cimport (thread_can_serve, thread_drain, thread_memory, thread_over, thread_prepare,
                                         thread_run, thread_sleep_ms)
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
from raftmeta.loop.loop cimport READER_KAFKA
from raftmeta.machine.state cimport LEVEL_OF_JOIN_LEASES
from raftmeta.native.atomics cimport load_shared
from raftmeta.net.posix cimport close
from raftmeta.security.audit_queue cimport AUDIT_BY_KAFKA, AUDIT_PORT_KAFKA
from raftmeta.status cimport SESSION_UNKNOWN
from raftmeta.wire.commands cimport Bytes

cdef enum:
    LONELY_NS = 2_000_000_000       # without a leader for so long: clients are sent elsewhere


# --- what the loop published ------------------------------------------------------------------------------------------
cdef void _judge(KafkaDoor* door) noexcept nogil:
    cdef bint was_serving = door.is_serving
    cdef Bytes start = group_root()
    cdef Bytes end = topic_logs_end()   # groups stand before record logs; what lies between changes nothing here
    desk_watch(&door.desk, &start, &end)
    door.is_lonely = desk_is_lonely(&door.desk, LONELY_NS)
    door.is_serving = (thread_can_serve(&door.desk, door.is_lonely)
                       and door.desk.status.machine.feature_level >= LEVEL_OF_JOIN_LEASES)
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


# --- a turn -----------------------------------------------------------------------------------------------------------
cdef int _sleep_ms(const Desk* desk) noexcept nogil:
    return thread_sleep_ms(desk, (<const KafkaDoor*>desk).is_serving)


cdef void _tell_counters(KafkaDoor* door) noexcept nogil:
    door.counters.memory = thread_memory(&door.desk)
    door.counters.base = door.desk.base.counters
    door.published.write(door.counters)


cdef void _turn(Desk* desk) noexcept nogil:
    cdef KafkaDoor* door = <KafkaDoor*>desk
    desk_look(&door.desk, LEVEL_OF_JOIN_LEASES)
    _judge(door)
    door.desk.has_pause = False
    door.counters.waiting = 0
    connections_look(&door.desk.base)
    desk_take_mail(&door.desk, desk_open_mail(&door.desk))
    own_take(door)
    thread_drain(&door.desk)
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
    thread_run(<Desk*>argument, _sleep_ms, _turn)
    return NULL


# --- life -------------------------------------------------------------------------------------------------------------
cdef KafkaDoor* kafka_create(Loop* loop, Accounts* accounts, const ConnectionLimits* common, const DeskLimits* desk,
                             const KafkaLimits* limits, int listener, const uint8_t* host, uint8_t host_length,
                             uint32_t port, OwnLogs* own) noexcept nogil:
    cdef KafkaDoor* door = <KafkaDoor*>calloc(1, sizeof(KafkaDoor))
    if door == NULL:
        close(listener)
        return NULL
    door.desk.base.rules = kafka_rules()
    thread_prepare(&door.desk, accounts, AUDIT_BY_KAFKA, AUDIT_PORT_KAFKA, common, KAFKA_FRAME_BYTES_MAX, listener)
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
    thread_over(&door.desk)
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
