# Coverage marks: "this rare state was reached". A mark stands where a rule of the protocol does its work. A campaign of
# the simulator that reaches all marks has tested all of these rules (docs/faults.md "Marks").
#
# A mark costs one store of a constant to a constant address, in code that seldom runs. Nothing is read, counted or
# decided, and threads that reach the same mark write the same byte; so marks stay in production.
# To add one, write a line here and `mark(MARK_...)` in the state that it names. marks.pyx reads their names out of this
# file: an enum for Python would take half a megabyte.
cdef enum Mark:
    # elections
    MARK_LEADER_MET_HIGHER_TERM = 0      # a leader heard of a higher term
    MARK_CAMPAIGN_FORBIDDEN              # a member that may not lead let its time-out pass
    MARK_STRANGER_REFUSED                # a request of a peer that the membership in force does not name
    MARK_LINK_OLDER_THAN_MEMBERSHIP      # a link's unknown incarnation may be dead: the link is opened anew
    MARK_CAMPAIGN_BY_TRANSFER            # a campaign without pre-votes, asked for by the leader
    MARK_EARLY_CAMPAIGN                  # before its time-out, as nobody was heard to lead since the start
    MARK_EARLY_CAMPAIGN_INSTEAD          # it refused another member that heard no leader: it asks instead
    MARK_ELECTION_LOST                   # a majority refused
    MARK_CHECK_QUORUM_FAILED             # a leader heard no majority for an election time-out
    MARK_LEADER_REFUSED_CONNECTION       # the leader's process is gone: campaign at once
    MARK_VOTE_REFUSED_TERM_OLD           # a candidate of a term that is over
    MARK_VOTE_REFUSED_LEADER_ALIVE       # stickiness: a leader was heard just now
    MARK_VOTE_REFUSED_VOTED_ALREADY      # one vote per term
    MARK_VOTE_REFUSED_CANNOT_VOTE        # a blank or a damaged member was asked
    MARK_VOTE_REFUSED_LOG_BEHIND         # a candidate that lacks entries
    MARK_VOTE_OF_HIGHER_TERM_IGNORED     # a leader is alive: the term stays (thesis 4.2.3)
    MARK_VOTE_RESPONSE_LATE              # an answer to a campaign that is over
    MARK_TIMEOUT_NOW_LATE                # an order of a leader that this member follows no more
    MARK_PRE_CANDIDATE                   # a member asks whether it could win
    MARK_CANDIDATE                       # a member stands for election
    MARK_OWN_VOTE_DURABLE                # a candidate's own vote counts when its disk has it
    # replication
    MARK_MEMBER_BEHIND_THE_LOG           # a member needs an entry that is compacted here
    MARK_PROBE_WITHOUT_RECORDS           # a probe of a member that lacks nothing
    MARK_LOST_APPENDS_SUSPECTED          # an empty APPEND asks which ones arrived
    MARK_FULL_WINDOW_GIVEN_UP            # a full window of lost APPENDs behind a log that was cut
    MARK_APPEND_REFUSED                  # a member's log does not meet ours there
    MARK_SNAPSHOT_RESPONSE_LATE          # an answer to a snapshot that nobody waits for
    MARK_APPEND_BELOW_THE_LOG            # an APPEND of entries that a snapshot has replaced
    MARK_APPEND_DOES_NOT_MEET            # the entry in front of the new ones is another one here, or missing
    MARK_ENTRY_CONFLICTS                 # an entry of another term stands at this index
    MARK_LOG_TRUNCATED                   # a tail that nobody else has was cut (paper 5.3)
    MARK_CALLERS_WAIT_AT_MEMBER          # a member with callers asks to be told of commits at once
    MARK_SNAPSHOT_NOT_NEEDED             # a snapshot was announced to a member that is further
    MARK_COMMITTED_BY_COUNT              # a majority has an entry of the leader's term
    # the core
    MARK_LEADER_OF_THE_PAST              # a leader that was deposed is told so
    MARK_MESSAGE_OF_OLD_TERM             # a message of a term that is over
    MARK_READ_ASKED_OF_NO_LEADER         # a read was sent to a member that does not lead
    MARK_PROPOSED_WITHOUT_LEADER         # a proposal where no leader is known
    MARK_SNAPSHOT_STREAM_BROKE           # a connection broke in the middle of a snapshot
    MARK_SNAPSHOT_TRANSFER_FAILED        # a member did not fetch an offered snapshot
    MARK_TRANSFER_FORWARDED              # a member asked its leader to hand over
    MARK_INSTALLED_OF_HIGHER_TERM        # a snapshot of a term that was unknown here
    MARK_INSTALLED_OVER_NEWER_TAIL       # the tail behind the point of a snapshot stays
    MARK_INSTALLED_AND_LOG_BEGUN         # a snapshot replaced the whole log
    MARK_REPAIR_WRITTEN                  # a mended record goes back to the disk
    # changes of membership
    MARK_MEMBERSHIP_TRUNCATED            # an entry with a membership was cut: the one before is in force again
    MARK_JOINT_LEFT                      # a joint membership was committed and is left
    MARK_LEADER_REMOVED_ITSELF           # a leader committed a membership without itself
    MARK_CHANGE_WHILE_CHANGING           # a change was asked for before the last one was committed
    MARK_CHANGE_OF_OLD_MEMBERSHIP        # a change was made from a membership that was replaced since
    MARK_CHANGE_WITH_UNREADY_VOTER       # a new voter is not yet a learner with the membership that names it
    MARK_CHANGE_WITHOUT_QUORUM           # too few of the new voters answer
    MARK_INCARNATION_SWAPPED             # a wiped member took the vote of its old self
    MARK_LEARNER_PROMOTED                # learners became voters by themselves
    # a leader's knowledge of members
    MARK_ACKNOWLEDGED_LESS               # an acknowledgement that a later one overtook
    MARK_REFUSAL_BELOW_MATCH             # a refusal that an acknowledgement overtook
    MARK_REFUSAL_OF_THE_PAST             # a refusal of an APPEND in front of the probe
    MARK_PIPELINE_LOST                   # APPENDs under way may be lost: probe again
    MARK_LAST_APPENDS_UNANSWERED         # a heartbeat was answered and the last APPENDs were not
    MARK_SNAPSHOT_CAUGHT_UP              # a member reached the log by a snapshot
    MARK_SNAPSHOT_STILL_NEEDED           # it refused the point of the snapshot that it waits for
    MARK_LOG_SERVES_AFTER_ALL            # it waited for a snapshot, and the log has what it lacks
    MARK_LEARNER_ROUND                   # a learner reached the end of a round of catching up
    MARK_PIPELINED                       # a probe was answered: APPENDs are sent ahead
    # damaged records
    MARK_REPAIR_REFUSED                  # a peer does not have the record that is damaged here
    MARK_MEMBERSHIP_REPAIRED             # a damaged entry with a membership was mended
    MARK_REPAIR_BY_SNAPSHOT              # a peer's damaged record is in our snapshot only
    MARK_REPAIR_OFFERED_ALREADY          # a snapshot was offered to a damaged peer just now
    MARK_REPAIRED                        # a damaged record was mended
    MARK_REPAIR_GIVEN                    # a peer's damaged record is here
    # reads
    MARK_READ_BY_SOLE_VOTER              # a read that needs no round
    MARK_READS_VOID                      # reads were waiting when the leader was lost
    MARK_READ_ANSWER_LATE                # an answer to a question of an earlier life or role
    MARK_READ_FORWARDED                  # a member asks its leader for a read index
    MARK_READ_JOINED_ROUND               # a read waits for a round of heartbeats
    # heartbeat rounds
    MARK_MEMBER_FORGOT_THE_MATCH         # a restarted member must be shown where the logs meet
    MARK_LEASE_CLOCK_ADVANCED            # a quorum confirmed an interval
    MARK_LEASE_CLOCK_HEARD               # a leader told its lease clock
    MARK_LEASE_CLOCK_OF_A_VOTER          # an elected member learned a later lease clock from a vote
    # messages that wait
    MARK_ACKNOWLEDGEMENTS_MERGED         # two acknowledgements wait for one write
    MARK_MESSAGE_HELD                    # an answer waits for the disk
    # the log in memory
    MARK_DAMAGED_TAIL_TRUNCATED          # a damaged entry was cut with its tail
    MARK_REPAIRED_BEFORE_OTHERS          # a record in front of others was mended
    # proposals
    MARK_PROPOSED_WHILE_TRANSFERRING     # a proposal while leadership is handed over
    MARK_URGENT_PROPOSED                 # a keep-alive or a fence passes all limits
    MARK_PROPOSAL_REFUSED                # a forwarded proposal was refused
    MARK_REFUSAL_CAME_BACK               # a refused proposal came back to its member
    # leadership transfer
    MARK_TRANSFER_TWICE                  # a transfer while one is under way
    MARK_TRANSFER_TO_NOBODY              # a transfer to no member, or with no other voter
    MARK_TRANSFER_TARGET_READY           # the target of a transfer has the whole log
    MARK_TRANSFER_TIMED_OUT              # a transfer did not end within an election time-out
    # founding
    MARK_FOUNDED_BY_ANOTHER              # a member that accepted heard that all have
    MARK_JOINED_FOUNDED_CLUSTER          # a blank node met a founded cluster
    MARK_FOUNDING_WHILE_PERSISTING       # a proposal came while the last one is written
    MARK_FOUNDING_IS_OVER                # a proposal to a founded node
    MARK_FOUNDING_ACCEPTED_AGAIN         # an acceptance is repeated
    MARK_LATE_ACCEPTANCE_ANSWERED        # a member that missed the end of the founding asks again
    MARK_JOINING_ENDED                   # a node that joined knows its cluster for good
    MARK_FOUNDING_PROPOSED               # a founder heard of everybody
    MARK_FOUNDED_BY_ALL                  # all initial members accepted
    # the log on disk
    MARK_LOG_LOST                        # an acknowledged tail is gone: another incarnation begins
    MARK_LOG_DAMAGED                     # records that were synced do not match
    MARK_LOG_TORN                        # the last batch was begun and not acknowledged
    MARK_SEGMENT_HEADER_HEALED           # one copy of a segment's header was damaged
    MARK_TORN_BATCH_ERASED               # the beginning of a torn batch was written over
    MARK_OLD_SEGMENT_REMOVED             # a crash in the middle of a compaction left a segment
    MARK_SEGMENT_USED_AGAIN              # a retired segment became the spare
    MARK_BATCH_TAKEN_BACK                # the disk was full in the middle of a batch
    MARK_SEGMENT_BEGUN                   # a batch began a segment
    MARK_MARK_REACHED_FURTHER            # the mark went ahead of a batch
    MARK_MARK_WRITTEN_AT_THE_END         # a write or sync failed: the log stops, and the mark is written anew
    # opening a log
    MARK_RECOVERY_VOID_SEGMENT           # a segment of a former incarnation
    MARK_RECOVERY_RECORD_SALVAGED        # a record in a damaged batch was found
    MARK_RECOVERY_RECORD_DAMAGED         # a record in a damaged batch was not found
    MARK_RECOVERY_HOLE_FILLED            # a lost header's facts are known from its successor or the mark
    MARK_RECOVERY_TORN_RECORDS           # a batch with a header and without its records
    MARK_RECOVERY_TORN_HEADER            # a batch whose header was torn
    MARK_RECOVERY_LAST_HEADER_DAMAGED    # the last batch was synced and its header is gone
    MARK_RECOVERY_WITHOUT_MARK           # the second witness is missing or broken
    MARK_RECOVERY_BATCH                  # a batch was found again
    # transfer of snapshots
    MARK_OFFER_TO_UNCONNECTED            # a snapshot is needed by a member that is not connected
    MARK_FETCH_OF_GONE_FILE              # a replaced file was asked for
    MARK_OFFER_TIMED_OUT                 # an offer was not taken
    MARK_RECEIVING_ABANDONED_MIDWAY      # a transfer was given up in the middle
    MARK_FETCH_FROM_ANOTHER              # a transfer goes on with another member
    MARK_OFFER_NOT_NEEDED                # an offer to a node that is further, or leads
    MARK_OFFER_OF_BETTER_FILE            # a better file was offered while nobody gave the one under way
    MARK_OFFER_WHILE_RECEIVING           # an offer while a transfer goes on
    MARK_PIECE_OUT_OF_ORDER              # a piece out of turn
    MARK_NOBODY_HAS_THE_FILE             # nobody gives the offered file
    MARK_PIECE_NOT_WRITTEN               # a piece found no room
    MARK_OFFER_TAKEN                     # a transfer begins
    MARK_ALL_PIECES_THERE                # a received file is whole
    # keeping snapshots
    MARK_SNAPSHOT_WITHOUT_ROOM           # a snapshot found no room
    MARK_OLDER_FILE_RECEIVED             # a received file is older than this node's own
    MARK_FILE_LENT                       # the log waits for a member that fetches
    MARK_SNAPSHOT_DUE                    # the point of a snapshot was applied
    MARK_OLD_FILE_REMOVED                # a file that nobody needs was removed
    # installing them
    MARK_INSTALL_OVERTAKEN               # the log was faster than the snapshot
    MARK_BLOCKED_WRITE_STRIPPED          # a write that found no room belonged to a log that is gone
    MARK_INSTALLED                       # a received state replaced this node's own
    # peers
    MARK_HELLO_OF_REMOVED                # a removed member introduced itself
    MARK_BOOT_CONTRADICTED               # a HELLO named another boot than the one that answers now
    MARK_FRAME_BEFORE_FOUNDING           # a protocol message before the founding ended
    MARK_FRAME_OF_REMOVED                # a connection of a member that is removed
    MARK_QUORUM_OF_DISKS_LOST            # a majority of the voters has lost its disk
    MARK_LINK_STILL_DOWN                 # a link that was down was refused again
    MARK_LINK_LOST                       # a connection to a peer broke
    MARK_PROPOSAL_TWICE                  # a proposal came a second time, or after a later one
    MARK_PROPOSAL_FOR_EARLIER_LIFE       # a proposal was on its way while its target restarted
    # a node's own work
    MARK_SESSION_LOST                    # its own session expired
    MARK_KEEP_ALIVES_UNANSWERED          # many keep-alives without an answer
    MARK_KEPT_LEASE_LOST                 # a kept lease was gone when a keep-alive was applied
    MARK_KEPT_LEASE_GONE_BY_INSTALL      # a kept lease was gone after an install
    MARK_EXPIRY_UNDER_WAY                # an expiry is not applied yet
    MARK_SESSIONS_EXPIRE                 # sessions of nodes that are gone end
    MARK_WIPED_LEARNER_RETURNS           # a learner returned as another incarnation
    MARK_LEASES_EXPIRE                   # leases that nobody keeps end
    MARK_LEASE_OF_DEAD_PROCESS           # a lease ended before its time, as its process is gone
    MARK_SESSION_OF_DEAD_PROCESS         # a session did
    MARK_PROCESS_SEEN_GONE               # a member told the leader that a process's address refuses
    MARK_PROCESS_GONE_UNCONFIRMED        # the leader found a process gone, and no majority says so yet
    MARK_PROCESS_ENDED_BY_SUCCESSOR      # a node ended what its own former life left
    MARK_SESSION_OPENED                  # its own session is in the state
    MARK_HISTORY_TOO_LARGE               # the oldest history is let go
    # callers
    MARK_PROPOSED_AGAIN                  # a new leader: unanswered commands are proposed once more
    MARK_REFUSED_AND_QUEUED              # a refusal after which the command is proposed again
    MARK_REFUSED_AND_IN_DOUBT            # refused, and perhaps in the log: the command waits for another try
    MARK_SECOND_COPY_APPLIED             # a second copy of an answered command
    MARK_ANSWERED_BY_INSTALL             # a waiting result came with a snapshot
    MARK_READ_ROUND_VOID                 # a round of reads got no answer
    MARK_COMMAND_PROPOSED                # a caller's command went to the core
    # commands
    MARK_COMMAND_REPEATED                # a command came a second time and got its first answer
    MARK_COMMAND_OF_ENDED_SESSION        # a command of a session that ended
    MARK_RENEWED_BEFORE_EXPIRY           # a lease was renewed between its expiry's proposal and its turn
    MARK_HISTORY_COMPACTED               # a compaction was applied
    MARK_LEASE_RENEWED                   # a keep-alive renewed a lease
    # sessions
    MARK_RESULT_EVICTED_FROM_SESSION     # a sequence below what its session keeps
    MARK_SESSION_OPENED_AGAIN            # an opening that came twice
    # watches
    MARK_WATCH_BELOW_HISTORY             # a watch began below the history
    MARK_WATCH_JUMPED                    # a live watch must catch up after an install
    MARK_WATCH_REPLAYED                  # a watch catches up from the history
    # znodes
    MARK_ZNODE_TREE_FOUNDED              # the first request of a root made what every tree has
    MARK_ZNODE_TREE_IN_THE_WAY           # a plain key stands where a tree would begin
    MARK_ZNODE_REQUEST_EARLY             # the request in front of it was not applied yet
    MARK_ZNODE_REQUEST_TAKEN_BACK        # refused in its middle: what was planned before is not done
    MARK_ZNODE_WENT_WITH_LEASE           # and its parent was counted
    MARK_ZNODE_KEPT_FOR_CHILDREN         # a TTL node was due and had children
    MARK_ZNODE_TIME_BEGINS               # a lease was granted for a TTL node or an empty container
    MARK_ZNODE_TIME_ENDS                 # such a lease went: the znode did, or a container has a child again
    MARK_ZNODE_WRITE_REFUSED             # a native write would have changed a znode
    # worker groups
    MARK_GROUP_REQUEST_REFUSED           # with a code of Kafka's
    MARK_GROUP_MEMBER_PENDING            # the first of the two steps of a join
    MARK_GROUP_STABLE                    # its leader has assigned
    MARK_GROUP_INSTANCE_TAKEN            # another holder of an instance took the place of the one before
    MARK_GROUP_STAYS_STABLE              # ... and the votes chose the same protocol
    MARK_GROUP_MEMBER_WENT_WITH_LEASE    # and its group went on without it
    MARK_GROUP_MEMBER_WENT_BEFORE        # the timer of its group removed it, and then its lease ended in the same entry
    MARK_GROUP_TIMER_ENDS_PHASE          # members that had not joined go
    MARK_GROUP_DELAY_EXTENDED            # a member came during the initial delay
    MARK_GROUP_LEADER_DROPPED            # it sent no assignments
    MARK_GROUP_STATIC_MEMBERS_AWAITED    # a phase ended, and nobody but static members that did not join was left
    # observers
    MARK_FEED_CUT_OFF                    # an observer asked a node that is not fed itself, or that it feeds
    MARK_FEED_BEHIND                     # a feeder knows less to be committed than the observer
    MARK_FEED_NEEDS_SNAPSHOT             # an observer lacks what its feeder has compacted
    MARK_FEED_FROM_FILES                 # an observer lacks what has left its feeder's memory
    MARK_FEED_OF_OBSERVER                # an observer gives records to another one
    MARK_FEED_MEMBERSHIP_TOLD            # to an observer that knows none
    MARK_FEED_LATE                       # an answer to a request that is not open
    MARK_FEED_DOES_NOT_MEET              # the observer's log began anew since it asked
    MARK_FEEDER_SILENT                   # an observer looks for another feeder, as its own says nothing
    MARK_FEEDER_LOST                     # ... as the connection to it broke
    MARK_FEEDING_LEADER_RELIEVED         # ... as the leader has enough to do
    MARK_FEED_FULL                       # a node that has no place for one more observer refused it

cdef extern from "marks.hpp" namespace "raftmeta" nogil:
    void mark(Mark which) noexcept
    bint mark_is_reached(Mark which) noexcept
    void marks_clear() noexcept
