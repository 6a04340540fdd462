# The beliefs of the core at every step. If one proves wrong the node stops and keeps its files (docs/invariants.md).
# It guesses nothing: a test, the simulator or a person reads the number and the two facts that contradict each other.

# CoreStatus.broken; the two facts stand in broken_a and broken_b.
cdef enum Invariant:
    BROKEN_COMPACTED_BEYOND_SNAPSHOTTED = 1
    BROKEN_SNAPSHOTTED_BEYOND_APPLIED = 2
    BROKEN_APPLIED_BEYOND_COMMITTED = 3
    BROKEN_COMMITTED_BEYOND_LAST = 4
    BROKEN_PERSISTED_BEYOND_STAGED = 5
    BROKEN_STAGED_BEYOND_LAST = 6
    BROKEN_APPLIED_BEYOND_PERSISTED = 7
    BROKEN_PLACES = 8                   # records in memory are not offset + 1 .. last
    BROKEN_CHAIN = 9                    # a record in memory does not continue the one before
    BROKEN_TRUNCATED_COMMITTED = 10     # a = index at which a leader has another entry, b = committed (HISTORY_LOST)
    BROKEN_TWO_LEADERS = 11             # a = term, b = the other leader (paper 5.2 Election Safety)
    BROKEN_LEADER_UNKNOWN_TO_ITSELF = 12
    BROKEN_LEADER_APPENDED_TO = 13      # a leader received its own term's APPEND
    BROKEN_MATCH_NOT_BELOW_NEXT = 14    # a = match, b = next
    BROKEN_MATCH_BEYOND_LAST = 15
    BROKEN_TERM_FELL = 16
    BROKEN_VOTED_TWICE = 17             # a = earlier vote, b = later one in the same term
    BROKEN_APPLIED_BACKWARDS = 19
    BROKEN_WRITE_UNKNOWN = 20           # a = write id that was never given, b = the one under way
    BROKEN_MEMBERSHIP = 21              # a membership of our own log cannot be read
    BROKEN_LEADER_NOT_DURABLE = 22      # a leader whose vote for itself is not on its disk
    BROKEN_ACKNOWLEDGED_LOST = 23       # a = index that this member acknowledged, b = its last (HISTORY_LOST)
