"""The reasons for which a node is not ready, in words.

It decides which states have a name and what to do about each (docs/operations.md "A node that is not ready").
It must never ask anybody, or look into a running loop; it reads copies of what that published, and the folder.
"""

import datetime
import math
import os
import time

from libc.stdint cimport uint32_t

from raftmeta.engine.state cimport ENGINE_GENESIS, ENGINE_RUNNING
from raftmeta.face.links cimport names_of_links, unreachable
from raftmeta.face.tls cimport refusal_text
from raftmeta.loop.loop cimport LinkStatus, LinkTable
from raftmeta.loop.loop cimport NodeStatus as StatusBlock
from raftmeta.raft.types cimport MEMBERS_MAX, VOTER_INCOMING, Membership
from raftmeta.status cimport BAD_VERSION, FOREIGN_CLUSTER, FOREIGN_NODE, OLD_BOOT, REMOVED

from raftmeta.errors import error_from_status, unapplied_text
from raftmeta.results import Problem
from raftmeta.common.text import shown


cdef str _listed(object names):
    return ", ".join(sorted(names))


# --- this node itself -------------------------------------------------------------------------------------------------
# Deleted, or another one lies there: what is written into the open descriptor is in no folder of that name.
cdef bint _is_folder_gone(object path, int directory):
    if directory < 0:
        return False
    try:
        here, there = os.fstat(directory), os.stat(path)
    except OSError:
        return True
    return (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino)


cdef list _of_itself(object identity, int directory, object reserve, const StatusBlock* status):
    found = []
    if status.fatal:
        reason = error_from_status(status.fatal, detail=unapplied_text(status.unapplied))
        found.append(Problem("stopped", f"it has stopped: {reason}; see docs/operations.md, then start it again"))
    if _is_folder_gone(identity.data_dir, directory):
        found.append(Problem("folder_gone", f"its folder {identity.data_dir} was deleted or replaced while it runs: "
                                            "stop it, and start it on an empty folder; it comes back as a new member"))
    elif status.engine_state == ENGINE_RUNNING and status.log_free_bytes <= reserve:
        found.append(Problem("disk_full", f"its disk or log is full ({status.log_free_bytes} bytes free at "
                                          f"{identity.data_dir}): make room, or raise wal_bytes_max"))
    if status.core.is_removed:
        found.append(Problem("removed", "it was removed from the cluster: add it again with an empty folder"))
    elif status.engine_state == ENGINE_RUNNING and not status.core.is_member and not status.core.is_observer:
        found.append(Problem("waits_for_member",
                             f"it waits for add_member({identity.name!r}, {str(identity.advertise)!r})"))
    return found


DAY_S = 86_400
EXPIRES_SOON_DAYS = 30


cdef list _of_certificate(object certificates, object expires_s):
    found = []
    left_s = expires_s - time.time()
    path = certificates.tls.certificate
    day = datetime.datetime.fromtimestamp(expires_s, datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    if left_s <= 0:
        found.append(Problem("certificate_expired", f"its certificate ended on {day}, and no other node or client "
                                                    f"accepts it: put a new one into {path}; it is read by itself"))
    elif left_s <= EXPIRES_SOON_DAYS * DAY_S:
        found.append(Problem("certificate_expires", f"its certificate ends within {math.ceil(left_s / DAY_S)} days, on "
                                                    f"{day}: put a new one into {path}; it is read by itself"))
    if certificates.failure:
        found.append(Problem("tls_not_renewed", "the files of TLS could not be read anew, and what was read before "
                                                f"stays in force: {certificates.failure}"))
    return found


cdef list _of_trail(object trail):
    where = f"its audit trail in {trail.folder}"
    if trail.failure:
        gives_way = "what must be recorded is refused" if trail.is_required else "records are dropped once it is full"
        return [Problem("audit_unwritable", f"{where} cannot be written: {trail.failure}; a queue waits, and "
                                            f"{gives_way} ({trail.dropped} dropped): make room")]
    if trail.has_dropped_lately:
        return [Problem("audit_dropped", f"{where} lacks {trail.dropped} records of this run: they came faster than "
                                         "they could be written")]
    return []


# --- the founding -----------------------------------------------------------------------------------------------------
cdef list _of_founding(object identity, const LinkTable* links):
    cdef const LinkStatus* link
    cdef int i
    found = []
    own = _listed(identity.peers)
    for i in range(MEMBERS_MAX):
        link = &links.links[i]
        name = shown((<const char*>link.name)[:link.name_length])
        if link.name_length == 0 or link.is_self:
            continue
        if link.told_length:
            told = shown((<const char*>link.told)[:link.told_length])
            found.append(Problem("other_peers", f"{name} was started with the peers {told}; this node with {own}: "
                                                "start all of them with the same names"))
        elif name not in identity.peers:
            found.append(Problem("other_peers", f"{name} connects to this node, which was started with the peers "
                                                f"{own}: start all of them with the same names"))
    if not found and not unreachable(links):
        founder = min(identity.peers, key=str.encode)
        waits = "every peer must accept first" if founder == identity.name else f"{founder} founds it"
        found.append(Problem("not_founded", f"the cluster is not founded yet: {waits}, and all must have been started "
                                            f"with the same peers ({own})"))
    return found


# --- connections ------------------------------------------------------------------------------------------------------
cdef object _of_refusal(object identity, const LinkStatus* link):
    name = shown((<const char*>link.name)[:link.name_length])
    if link.refusal == FOREIGN_CLUSTER:
        return Problem("other_cluster", f"{name} is of another cluster: this node was started with "
                                        f"cluster={identity.cluster!r}, {name} with another name, or its folder "
                                        "belongs to another cluster")
    if link.refusal == FOREIGN_NODE:
        who = name if link.is_up else f"{identity.name} or {name}"
        return Problem("same_name", f"two nodes run under the name {who}, or another node answers at the address of "
                                    f"{name}: stop one of them")
    if link.refusal == OLD_BOOT:
        return Problem("older_folder", f"{name} runs on an older copy of its folder: stop it, empty the folder and "
                                       "start it again")
    if link.refusal == BAD_VERSION:
        return Problem("other_version", f"{name} is of a version that does not understand this cluster: install the "
                                        "same version of raftmeta")
    if link.refusal == REMOVED:
        return Problem("removed_peer", f"{name} was removed from the cluster, or this node was: add it again")
    if refusal_text(link.refusal, name):
        return Problem("tls", refusal_text(link.refusal, name))
    return Problem("refused", f"the connection with {name} is refused (status {link.refusal})")


cdef list _of_links(object identity, const LinkTable* links):
    cdef int i
    return [_of_refusal(identity, &links.links[i]) for i in range(MEMBERS_MAX)
            if links.links[i].name_length != 0 and not links.links[i].is_self and links.links[i].refusal != 0]


# --- majorities -------------------------------------------------------------------------------------------------------
cdef list _of_disks(const StatusBlock* status, const LinkTable* links):
    lost = names_of_links(links, status.lost_links)
    if lost and 2 * (status.voter_count - status.lost_count) <= status.voter_count:
        return [Problem("majority_lost", f"{len(lost)} of {status.voter_count} voters lost their disks "
                                         f"({', '.join(lost)}), so no majority can ever be had: restore the cluster "
                                         "from a backup; a damaged log counts as a lost disk, and `raftmeta snapshot "
                                         "save --data` saves what the folders hold")]
    if lost:
        return [Problem("lost_disk", f"lost its disk and waits for a leader to take it back: {', '.join(lost)}")]
    return []


# The voters that are heard. Without a membership (before the founding) all names count.
# An observer comes and goes, so its connection is no problem of a member.
cdef list _of_majority(object identity, const StatusBlock* status, const LinkTable* links,
                       const Membership* membership):
    cdef uint32_t i
    named = {shown((<const char*>membership.members[i].name)[:membership.members[i].name_length])
             for i in range(membership.count)}
    away = {name for name in unreachable(links) if not named or name in named or name in identity.peers}
    voters = [shown((<const char*>membership.members[i].name)[:membership.members[i].name_length])
              for i in range(membership.count) if membership.members[i].roles & VOTER_INCOMING]
    missing = [name for name in voters if name in away]
    if status.engine_state == ENGINE_RUNNING and status.core.leader == 0 and 2 * len(missing) >= len(voters) > 0:
        return [Problem("no_majority", f"{len(voters) // 2 + 1} of {len(voters)} voters must answer: no connection to "
                                       f"{_listed(away)}; start them, and look at the addresses and the network")]
    if away:
        return [Problem("unreachable", f"no connection to {_listed(away)}")]
    return []


# An observer is connected to its feeder only, so the connections that it has not are no problem.
cdef list _of_feeder(const StatusBlock* status, const LinkTable* links):
    if status.engine_state == ENGINE_RUNNING and status.core.feeder != 0:
        return []
    away = _listed(unreachable(links))
    return [Problem("no_feeder", "no member or observer feeds this observer: "
                                 + (f"no connection to {away}" if away else "each is behind or full"))]


cdef list _of_session(const StatusBlock* status):
    if status.engine_state != ENGINE_RUNNING or status.core.is_removed:
        return []
    if not (status.core.is_member or status.core.feeder):
        return []
    if status.core.leader == 0:
        return [Problem("no_leader", "no leader is known: an election is under way, or its messages do not arrive")]
    if status.session == 0:
        return [Problem("no_session", "a leader is known; this node waits for it to open its session")]
    return []


cdef tuple problems_of(object identity, int directory, object reserve, const StatusBlock* status,
                       const LinkTable* links, const Membership* membership, object certificates, object trail):
    found = _of_itself(identity, directory, reserve, status)
    if certificates is not None:
        found += _of_certificate(certificates, status.certificate_expires_s)
    if trail is not None:
        found += _of_trail(trail)
    if status.engine_state == ENGINE_GENESIS and not identity.is_observer:
        found += _of_founding(identity, links)
    found += _of_links(identity, links)
    found += _of_disks(status, links)
    if identity.is_observer:
        found += _of_feeder(status, links)
    elif not status.core.is_removed:
        found += _of_majority(identity, status, links, membership)
    # A state that passes by itself is told only when nothing explains it.
    return tuple(found or _of_session(status))


cdef object not_ready_error(object kind, str message, tuple problems, const StatusBlock* status,
                            const LinkTable* links):
    if problems:
        message += ": " + "; ".join(problem.text for problem in problems)
    return kind(message, unreachable=unreachable(links), lost_disks=names_of_links(links, status.lost_links),
                problems=problems)
