"""How deep a command of a user machine may recurse: the same on every node, whatever its host has set.

sys.setrecursionlimit() is one number for all threads of a process, and counts what stands below the call, too.
CPython (3.11 and later) counts down for each thread how many calls may still be nested. That count is set here for
one call.
"""
cdef extern from *:
    """
    #if PY_VERSION_HEX >= 0x030C0000
    #define RAFTMETA_REMAINING(state) ((state)->py_recursion_remaining)
    #else
    #define RAFTMETA_REMAINING(state) ((state)->recursion_remaining)
    #endif
    static int raftmeta_remaining(void) { return RAFTMETA_REMAINING(PyThreadState_Get()); }
    static void raftmeta_set_remaining(int count) { RAFTMETA_REMAINING(PyThreadState_Get()) = count; }
    """
    int raftmeta_remaining()
    void raftmeta_set_remaining(int count)


def call_within_depth(function, tuple args not None, dict kwargs not None, int depth):
    cdef int before = raftmeta_remaining()
    raftmeta_set_remaining(depth)
    try:
        return function(*args, **kwargs)
    finally:
        # Another thread may have changed the limit of all threads meanwhile, by a difference.
        raftmeta_set_remaining(before + raftmeta_remaining() - depth)
