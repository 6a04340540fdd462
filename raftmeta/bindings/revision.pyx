"""The answer to a write: an integer that also knows its place in the log.

It decides how two answers compare. It never decides what an answer is.
"""

cimport cython
from cpython.object cimport Py_EQ, Py_GT, Py_LE, Py_LT, Py_NE
from libc.stdint cimport uint64_t


@cython.freelist(256)
@cython.final
cdef class Revision:
    """The answer of a write: an integer by its revision."""

    def __int__(self):
        return self.revision

    def __index__(self):
        return self.revision

    def __hash__(self):
        return hash(self.revision)

    def __richcmp__(self, other, int comparison):
        cdef object own = self.revision
        if isinstance(other, Revision):
            other = (<Revision>other).revision
        elif not isinstance(other, int):
            return NotImplemented
        if comparison == Py_EQ:
            return own == other
        if comparison == Py_NE:
            return own != other
        if comparison == Py_LT:
            return own < other
        if comparison == Py_LE:
            return own <= other
        return own > other if comparison == Py_GT else own >= other

    def __repr__(self):
        return f"Revision({self.revision}, index={self.index})"

    def __reduce__(self):
        return _revision_from, (self.revision, self.index, self.result)


def _revision_from(uint64_t revision, uint64_t index, result):
    return new_revision(revision, index, result)


cdef Revision new_revision(uint64_t revision, uint64_t index, object result):
    cdef Revision made = Revision.__new__(Revision)
    made.revision = revision
    made.index = index
    made.result = result
    return made
