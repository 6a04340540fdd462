# The values that the loop of a node is given before it starts.
from libc.stdint cimport uint64_t

from raftmeta.loop.loop cimport Loop
from raftmeta.status cimport status_t

# Of a Config and a checked Identity, into a loop that was created and is not open.
cdef int fill_loop(Loop* loop, object config, object identity) except -1
# The error for what loop_open said; holder: the process that runs the folder, 0: not known. keys: a KeyRingHandle or
# None.
cdef object open_error(Loop* loop, status_t status, uint64_t holder, object identity, object keys)
# The error for a loop that has stopped by itself.
cdef object stopped_error(Loop* loop)
# Which call of the disk failed (storage/disk DiskCall); empty: none.
cdef str disk_call_name(uint64_t call)
