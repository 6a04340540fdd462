# The simulated world as a Python object; other faces of the same world look through it.
from raftmeta.sim.world.world_state cimport World as NativeWorld

cdef class World:
    cdef NativeWorld* native
