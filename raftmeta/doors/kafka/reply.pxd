# The answers of the Kafka door: their frame, and what a request may ask of the loop.
#
# A handler begins an answer, writes the fields of its version, and ends it. The queue of the connection sends it in its
# turn (requests.pyx).
from libc.stdint cimport int16_t, int64_t, uint32_t

from raftmeta.doors.kafka.codec cimport KafkaReader, KafkaWriter
from raftmeta.doors.kafka.state cimport KafkaDoor, KafkaRequest, KafkaTask
from raftmeta.status cimport status_t
from raftmeta.wire.commands cimport Bytes
from raftmeta.wire.msgpack cimport Reader

# The head of the frame: length and correlation id; the fields follow. An answer that was begun before is thrown away.
cdef KafkaWriter reply_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil
# The fields are whole. error: of the whole request, for the audit trail.
cdef void reply_end(KafkaDoor* door, KafkaRequest* request, KafkaWriter* writer, int16_t error) noexcept nogil
# The request means nothing, or there is no memory for its answer: the connection is closed.
cdef void reply_fail(KafkaDoor* door, KafkaRequest* request) noexcept nogil
# throttle_time_ms, from version `since` on.
cdef void put_throttle(KafkaWriter* writer, int16_t since) noexcept nogil

# The request from its first field on.
cdef KafkaReader request_reader(const KafkaRequest* request) noexcept nogil
# Submit door.desk.command for the request, as its part. False: it was not; *status says why.
cdef bint request_command(KafkaDoor* door, KafkaRequest* request, uint32_t part, bint is_urgent,
                          status_t* status) noexcept nogil
# The error for a command that was not carried out, or whose outcome nobody knows. Requests may be repeated.
cdef int16_t error_of_status(status_t status) noexcept nogil
# The body of a result: [status, revision, body] is passed up to the body. False: there is no result.
cdef bint task_result(const KafkaTask* task, Reader* reader) noexcept nogil
# The error that a task's result comes to: KAFKA_OK, the code of a worker group, or error_of_status.
cdef int16_t task_error(const KafkaTask* task) noexcept nogil
# The state of the request's revision and round can be read in this turn, and is pinned.
cdef bint request_pin(KafkaDoor* door, const KafkaRequest* request) noexcept nogil
