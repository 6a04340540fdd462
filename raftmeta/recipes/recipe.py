"""The parts of every recipe: read this page, then any recipe beside it.

A recipe is written once, as coroutines. On asyncio they are awaited; for callers that may block the same coroutines run
on the caller's thread, where `await` blocks (recipes/face). A recipe decides which keys it needs, when they are written
and what its users are told. All else it takes from here:

    face.verbs                 the verbs of the store as coroutines: get, range, create, update, delete, add, txn, lease
    face.owner                 who holds what is taken here; a later life of the same owner takes its places over
    face.spawn(work, name)     lets a coroutine go on beside the caller; face.signal(), face.mutex(): to wait for others
    Deadline(timeout_s)        how long a call may take in all; left_s() is what is left for the next verb

    Hold                       a key with a lease: held(), epoch, and a fence for any write. It is over when it was lost
                               (on_lost calls back, at once if it is late) or given back. shown: what its user gets
    give_back_quietly(*holds)  remove their keys; where that fails, they go with their leases
    telling(face, callback)    a function that lets the user's callback be called with a hold
    stand_in_line(face, ...)   wait for one's turn behind all who came before; the Permit is a hold that is released
    wait_until(face, is_ready) read keys, then watch them, until they are as wanted; False: the deadline passed
    Mirror                     a copy of the keys below a prefix: records as of revision. `changes` has what the last
                               revision changed; `coalesced`: after a gap, so that it stands for several revisions
    Listeners                  of the user: tell(change) calls each, in order, one call at a time, never on this thread
    prefix_of(kind, name)      the prefix of all keys of one group, lock ...; pack_holder: the value that names a holder

A recipe without anything to close is made on a store (face_of). The four of KIP-30 are a Part, which is set up once and
closed once. Group and election are Followed, a Part whose places are the keys below one prefix (recipes/followed):

    _mine                      what this process has, by id; close() and release(ids) give it back, as _ended(mine) says
    _place, _take, _keeps      name a place; take it (IdConflict: somebody else has it); compare it with the mirror from
                               then on, unless it was given up meanwhile
    _on_open, _on_change       the mirror of all places was read; it has changed, and lost places know of it already
    _known(local=...)          all places: as a quorum knows them, or as they are known here; _holder_of: who has one
"""

from raftmeta.recipes.deadline import DEFAULT_TIMEOUT_S, DEFAULT_TTL_S, Deadline
from raftmeta.recipes.face import Face
from raftmeta.recipes.followed import Followed
from raftmeta.recipes.held import Hold, Permit, give_up_lease
from raftmeta.recipes.keys import (
    check_key,
    fence_of,
    key_of,
    key_set,
    name_in,
    pack_holder,
    prefix_of,
    tells_name,
    to_bytes,
)
from raftmeta.recipes.line import stand_in_line
from raftmeta.recipes.listeners import Failures, Listeners
from raftmeta.recipes.mirror import Mirror, Records
from raftmeta.recipes.part import Part, face_of
from raftmeta.recipes.places import give_back_quietly, telling
from raftmeta.recipes.versions import KeySet, Versions
from raftmeta.recipes.waiting import wait_until

__all__ = [
    "DEFAULT_TIMEOUT_S",
    "DEFAULT_TTL_S",
    "Deadline",
    "Face",
    "Failures",
    "Followed",
    "Hold",
    "KeySet",
    "Listeners",
    "Mirror",
    "Part",
    "Permit",
    "Records",
    "Versions",
    "check_key",
    "face_of",
    "fence_of",
    "give_back_quietly",
    "give_up_lease",
    "key_of",
    "key_set",
    "name_in",
    "pack_holder",
    "prefix_of",
    "stand_in_line",
    "telling",
    "tells_name",
    "to_bytes",
    "wait_until",
]
