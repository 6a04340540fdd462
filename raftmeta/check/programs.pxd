# Reads, writes, compare-and-set, deletes and transactions as programs of micro-operations (raftmeta/check/model.pxd).
#
#     read                                 result: the value, null when there is none
#     write    arguments: the value        delete
#     cas      arguments: [old,new]        result: true, false
#     txn      arguments: [["if",key,value], ..., ["r",key,null], ["w",key,value], ..., ["else"], ["r",...], ...]
#              result: the micro-operations that ran, reads with what they read; before them, if there is an "if",
#              ["if",true] or ["if",false]: all of these comparisons held, or not
from libc.stdint cimport int32_t

from raftmeta.check.json_text cimport Text
from raftmeta.check.loaded cimport Loaded
from raftmeta.check.model cimport Operation

# Fill the operation's program. 0, a Reason, or -1: no memory.
cdef int32_t program_of(Loaded* loaded, Operation* operation, int32_t code, Text result,
                        bint is_crashed) noexcept nogil
