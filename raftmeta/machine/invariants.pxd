# Beliefs of the replicated state about those who feed it, and about its own parts.

cdef enum MachineInvariant:
    BROKEN_APPLY_ORDER = 201            # a = index of a record, b = the one that must come here
    BROKEN_HISTORY_ORDER = 202          # a = newest revision of the history, b = of the keys
    BROKEN_LEASE_KEYS = 203             # a = lease that loses a key, b = keys that it has
    BROKEN_SESSION_WINDOW = 204         # a = highest sequence kept, b = lowest
    BROKEN_DUMP_MOVED = 205             # a = index applied now, b = when the dump began
    BROKEN_TREE_DEPTH = 206             # a = level of a node, b = levels that there may be
    BROKEN_TREE_PUT_BACK = 207          # a = revision of a version, b = of the one that it replaces
    BROKEN_TREE_REMOVED_LIVE = 208      # a = revision of the live key, b = newest in the tree
    BROKEN_TREE_PUBLISHED_BACK = 209    # a = revision published, b = one that is in the tree or was published
    BROKEN_TREE_EMPTY = 210             # a = low half of the hash, b = high half: of no key at all
    BROKEN_PLAN_REVISION = 211          # a = revision of a planned change, b = the one that the entry makes
    BROKEN_LEASE_DETACHED = 212         # a = lease that loses a key, b = revision of the version, which it has not
    BROKEN_HISTORY_FLOOR = 213          # a = floor of the history, b = newest revision
    BROKEN_HISTORY_TRIMMED = 214        # a = newest revision that was given back, b = floor of the history
    BROKEN_ZNODE_PARENT = 215           # a = revision of a znode that goes, b = children that its parent has
    BROKEN_ZNODE_LEASE = 216            # a = lease of a container or a TTL node, b = keys that it has
    BROKEN_GROUP_MEMBER = 217           # a = pending members of a group that loses one, b = others
    BROKEN_GROUP_LEASE = 218            # a = lease of a group's timer, b = its time to live
    BROKEN_RECORD_LOG = 221             # a = offset of a record that no batch has, b = the next offset of its log
