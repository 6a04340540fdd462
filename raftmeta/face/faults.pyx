"""Faults of a node on purpose, as its Python side asks for them; raftmeta/faults.py says what they mean.

It decides nothing: it checks names and turns a table of faults into the bytes that the loop takes.
"""

from libc.stdint cimport uint64_t
from libc.string cimport memcpy, memset

from raftmeta.face.base cimport NodeBase
from raftmeta.loop.faults cimport FAULT_CUT_FROM, FAULT_CUT_TO, PARTS_PER_WHOLE, LinkFault
from raftmeta.raft.types cimport MEMBERS_MAX, NAME_BYTES_MAX

from raftmeta.errors import InvalidArgument


def abort(NodeBase node not None):
    node.abort()


def set_link_faults(NodeBase node not None, faults, uint64_t seed):
    if len(faults) > MEMBERS_MAX:
        raise InvalidArgument(f"faults: at most {MEMBERS_MAX} peers, not {len(faults)}", field="faults")
    node.set_link_faults(b"".join([_encoded(name, fault) for name, fault in faults.items()]), seed)


cdef bytes _encoded(object name, object fault):
    cdef LinkFault encoded
    cdef bytes raw = name.encode()
    if not 0 < len(raw) <= NAME_BYTES_MAX:
        raise InvalidArgument(f"faults: {name!r} is no name of a node", field="faults")
    memset(&encoded, 0, sizeof(LinkFault))
    encoded.name_length = <unsigned char>len(raw)
    memcpy(encoded.name, <const char*>raw, len(raw))
    encoded.cuts = (FAULT_CUT_TO if fault.cut_to else 0) | (FAULT_CUT_FROM if fault.cut_from else 0)
    encoded.drop_parts = round(fault.drop * PARTS_PER_WHOLE)
    encoded.duplicate_parts = round(fault.duplicate * PARTS_PER_WHOLE)
    encoded.delay_ns = round(fault.delay_s * 1e9)
    return (<const char*>&encoded)[:sizeof(LinkFault)]
