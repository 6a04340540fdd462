# The meaning of an operation of a history to the models, and why an event makes no sense. The numbers are those of
# raftmeta/check/prepared.py.

# The meaning of an operation of a history to the model; operations are named by codes.
cdef enum Meaning:
    MEANING_NONE = 0            # the model does not know it
    MEANING_READ = 1
    MEANING_WRITE = 2
    MEANING_CAS = 3
    MEANING_DELETE = 4
    MEANING_TRANSACTION = 5
    MEANING_TABLE = 6           # a model written in Python knows
    MEANING_OBSERVER = 7        # the same, and it changes no state, whatever it returns
    # Of native objects (raftmeta/check/objects.pxd).
    MEANING_SET_ADD = 8
    MEANING_SET_REMOVE = 9
    MEANING_SET_CONTAINS = 10
    MEANING_SET_READ = 11
    MEANING_QUEUE_ENQUEUE = 12
    MEANING_QUEUE_DEQUEUE = 13
    MEANING_LOCK_ACQUIRE = 14
    MEANING_LOCK_RELEASE = 15
    MEANING_LIST_APPEND = 16
    MEANING_LIST_READ = 17
    MEANING_COUNTER_ADD = 18
    MEANING_COUNTER_READ = 19
    MEANING_TEXT_WRITE = 20
    MEANING_TEXT_APPEND = 21
    MEANING_TEXT_READ = 22

cdef enum Reason:
    REASON_SEQ = 1
    REASON_KIND = 2
    REASON_OPERATION = 3
    REASON_UNDER_WAY = 4
    REASON_NOT_INVOKED = 5
    REASON_OTHER_OPERATION = 6
    REASON_OTHER_KEY = 7
    REASON_ARGUMENTS = 8
    REASON_RESULT = 9
    REASON_REVISION = 10
