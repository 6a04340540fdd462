"""Lies about a living world: what each check of raftmeta/sim/world/truth and its companions says to them, for tests."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.string cimport memset

from raftmeta._core cimport CoreStatus, core_status
from raftmeta.engine.engine cimport engine_stop
from raftmeta.machine.group_records cimport GROUP_COMPLETING, GROUP_STABLE
from raftmeta.machine.machine cimport ApplyResult, MachineStatus, machine_status
from raftmeta.machine.entry cimport ENTRY_ZNODE, ZnodeMeta
from raftmeta.machine.tree cimport Entry, tree_find
from raftmeta.machine.znodes cimport ZnodeView, znode_view
from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport hash64
from raftmeta.raft.types cimport (APPEND_RESPONSE, ENTRY_COMMAND, MEMBERS_MAX, VOTE, VOTE_RESPONSE, Membership, Message,
                                  Record)
from raftmeta.sim.world.calls cimport call_take
from raftmeta.sim.world.entries cimport entries_note
from raftmeta.sim.world.events cimport SIM_FRAME
from raftmeta.sim.world.groups_check cimport groups_judge_request
from raftmeta.sim.world.groups_state cimport SIM_GROUP_RESOURCES, SIM_GROUPS, SimGroups
from raftmeta.sim.world.groups_view cimport id_bytes
from raftmeta.sim.world.network cimport network_cut
from raftmeta.sim.world.processes cimport processes_take
from raftmeta.sim.world.topics_state cimport (SIM_LOGS, SIM_PARTITIONS, SIM_PRODUCERS, SIM_TOPICS, SimLog, SimOffset,
                                              SimTopics)
from raftmeta.sim.world.truth cimport truth_after_run, truth_leader, truth_message, truth_recovered
from raftmeta.sim.world.watches cimport watches_check_item
from raftmeta.sim.world.witness cimport witness_counted, witness_saw
from raftmeta.sim.world.workload cimport workload_done
from raftmeta.sim.world.world_handle cimport World
from raftmeta.sim.world.znodes_state cimport SIM_DOOR_WINDOW, SIM_EPHEMERAL, SimDoorCommand, SimZnode
from raftmeta.sim.world.world_state cimport (CALL_DELETE, SIM_CLIENTS, SIM_KEYS, SIM_LEASES, SIM_RIGHTS_KEYS,
                                             SIM_ROLES, SIM_WATCHES, SimCall, SimFrame, SimNode)
from raftmeta.status cimport INVARIANT_BROKEN, OK, status_t
from raftmeta.wire.commands cimport (COMMAND_PROCESS_END, Command, command_encode, command_init,
                                     command_release)
from raftmeta.wire.groups cimport GROUP_SYNC

cdef enum:
    CALL_BLOCK = 256                # as in raftmeta/sim/world/calls
    MADE_UP_CHAIN = 1               # of an entry that is in no log


cdef class Liar:
    """Bends one fact of a world, so that a true statement of the engine and the world's truth contradict each other."""
    cdef World world

    def __init__(self, World world):
        self.world = world

    cdef SimNode* _node(self, unsigned int number) except NULL:
        if number >= self.world.native.config.nodes or not self.world.native.nodes[number].is_up:
            raise ValueError(f"no node {number} that is up")
        return &self.world.native.nodes[number]

    cdef _say(self, SimNode* node, int type, uint64_t term, uint64_t index, uint64_t target):
        cdef Message message
        memset(&message, 0, sizeof(Message))
        message.type = type
        message.source = node.id
        message.target = target
        message.term = term
        message.index = index
        truth_message(self.world.native, node, &message)

    def acknowledge(self, number: int, index: int) -> None:
        cdef SimNode* node = self._node(number)
        self._say(node, APPEND_RESPONSE, node.durable.hard.term, index, 0)

    def campaign(self, number: int, term: int) -> None:
        self._say(self._node(number), VOTE, term, 0, 0)

    def grant_vote(self, number: int, target: int) -> None:
        cdef SimNode* node = self._node(number)
        self._say(node, VOTE_RESPONSE, node.durable.hard.term, 0, self._node(target).id)

    def lead(self, number: int, term: int) -> None:
        truth_leader(self.world.native, self._node(number), term)

    def look(self, number: int) -> None:
        truth_after_run(self.world.native, self._node(number))

    def recover(self, number: int) -> None:
        truth_recovered(self.world.native, self._node(number))

    def change_committed_entry(self, index: int) -> None:
        cdef uint64_t at = index
        self.world.native.truth.chains.data[at] ^= 1
        self.world.native.truth.terms.data[at] += 1

    def change_chain(self, index: int) -> None:
        cdef uint64_t at = index
        self.world.native.truth.chains.data[at] ^= 1

    def change_state_hash(self, index: int) -> None:
        cdef uint64_t at = index
        self.world.native.truth.state_hashes.data[at] ^= 2

    def change_known(self, number: int, index: int) -> None:
        """The node knew another entry as committed at index."""
        self._node(number).known.data[index] ^= 1

    def forget_committed(self, number: int, count: int) -> None:
        """As if neither this node nor the world had seen the last `count` commits yet."""
        cdef uint64_t last = self.world.native.truth.committed - <uint64_t>count
        self.world.native.truth.committed = last
        self._node(number).committed = min(self._node(number).committed, last)

    def forget_disks(self) -> None:
        """As if nothing were known to be durable anywhere."""
        cdef int number
        for number in range(self.world.native.config.nodes):
            self.world.native.nodes[number].durable.chains.clear()

    def damage(self, number: int, index: int) -> None:
        """As if the node had come back with a record at index that it cannot read."""
        if not self._node(number).durable.damaged.push(<uint64_t>index):
            raise MemoryError

    def forget_applied(self, number: int) -> None:
        self._node(number).applied = 0

    def raise_committed(self, number: int) -> None:
        self._node(number).committed += 1

    def vouch(self, number: int, index: int) -> None:
        """As if the node had acknowledged up to index."""
        cdef SimNode* node = self._node(number)
        cdef CoreStatus status
        core_status(node.engine.core, &status)
        node.acked_index = index
        node.acked_chain = 1
        node.acked_term = status.term

    def open_change(self, number: int, drops: int) -> None:
        """As if a membership without the first `drops` members came next, in one step. The world must not go on."""
        cdef SimNode* node = self._node(number)
        cdef Membership membership = node.engine.core.memberships.back()
        cdef int i
        membership.index = node.committed + 1
        membership.count -= drops
        for i in range(membership.count):
            membership.members[i] = membership.members[i + <int>drops]
        if not node.engine.core.memberships.push(membership):
            raise MemoryError

    def owe_reads(self, entries: int) -> None:
        """As if entries that no node has were acknowledged."""
        self.world.native.truth.acked_index += <uint64_t>entries

    def count_adds(self, number: int) -> None:
        """As if every counter had already answered with this number, once."""
        cdef int key
        for key in range(SIM_KEYS):
            self.world.native.truth.add_highest[key] = number

    def skip_event(self) -> None:
        """As if each watch had to show one revision more than it did."""
        cdef int number, watch
        for number in range(self.world.native.config.nodes):
            for watch in range(SIM_WATCHES):
                self.world.native.nodes[number].watches[watch].next_revision += 1

    def shift_point(self, number: int) -> None:
        """As if the node had counted its last point one entry too early."""
        cdef SimNode* node = self._node(number)
        node.engine.snapshots.point -= 1
        node.applied = 0

    def owe_room(self) -> None:
        """As if leaders had to hand over with more room left than they know of."""
        self.world.native.config.free_bytes_min = <uint64_t>-1

    def extend_leases(self, more_ms: int) -> None:
        """As if every lease had been shown with a later deadline."""
        cdef int i
        for i in range(SIM_LEASES):
            self.world.native.truth.leases[i].deadline_ms += <uint64_t>more_ms

    def believe_leases(self, more_ns: int) -> None:
        """As if the keepers had been told a later end."""
        cdef int number
        for number in range(self.world.native.config.nodes):
            self.world.native.nodes[number].lease.until_ns += <uint64_t>more_ns

    def move_leases(self) -> None:
        """As if the next process of each keeper had been granted its lease."""
        cdef int i
        for i in range(SIM_LEASES):
            self.world.native.truth.leases[i].keeper_boot += self.world.native.truth.leases[i].id != 0

    def end_process(self, number: int) -> None:
        """As if an entry that ends the node's process were committed now."""
        cdef SimNode* node = self._node(number)
        cdef Vec[uint8_t] bytes
        cdef Command command
        command_init(&command)
        command.kind = COMMAND_PROCESS_END
        command.member = node.engine.id
        command.boot = node.engine.boot
        memset(&bytes, 0, sizeof(bytes))
        if not bytes.resize(sizeof(Record)) or command_encode(&command, &bytes) != OK:
            raise MemoryError
        command_release(&command)
        memset(bytes.data, 0, sizeof(Record))
        cdef Record* record = <Record*>bytes.data
        record.type = ENTRY_COMMAND
        record.length = <uint32_t>(bytes.size - sizeof(Record))
        record.chain = MADE_UP_CHAIN
        entries_note(self.world.native, record)
        processes_take(self.world.native, node, self.world.native.truth.committed, MADE_UP_CHAIN)
        bytes.release()

    def end_session(self, number: int) -> None:
        """As if the last entry that the node has applied had ended the process of its session."""
        cdef SimNode* node = self._node(number)
        cdef size_t i
        for i in range(self.world.native.truth.named.size):
            if self.world.native.truth.named.data[i].session == node.engine.session.id:
                self.world.native.truth.named.data[i].ended = node.engine.applying.applied

    def cut_off(self, number: int) -> None:
        """Nothing reaches or leaves this node until the world heals."""
        cdef unsigned int other
        for other in range(self.world.native.config.nodes):
            if other != <unsigned int>number:
                network_cut(self.world.native, other, number)
                network_cut(self.world.native, number, other)

    def fail_next_sync(self, number: int) -> None:
        self._node(number).disk.faults.fail_at_sync = 1

    def stop(self, number: int) -> None:
        engine_stop(self._node(number).engine, INVARIANT_BROKEN)

    def forget_answer(self, number: int) -> None:
        self._node(number).calls_open += 1

    def forget_counts(self) -> None:
        cdef int number
        for number in range(SIM_CLIENTS):
            self.world.native.clients[number].known -= 2

    def raise_token(self) -> None:
        self.world.native.truth.guarded_token = ~<uint64_t>0

    def answer(self, index: int) -> None:
        self.world.native.truth.answered_index = index

    def see(self, key: int, value: int) -> None:
        witness_saw(self.world.native, &self.world.native.nodes[0], key, value, self.world.native.counts.events + 1)

    def count_again(self, key: int) -> None:
        cdef SimCall call
        memset(&call, 0, sizeof(SimCall))
        call.key = key
        call.floor_number = self.world.native.truth.add_highest[key]
        witness_counted(self.world.native, &self.world.native.nodes[0], &call, call.floor_number)

    def change_copies(self) -> None:
        cdef size_t position = self.world.native.truth.user_states.next(0)
        while position < self.world.native.truth.user_states.end():
            (&self.world.native.truth.user_states.value_at(position))[0] ^= 2
            position = self.world.native.truth.user_states.next(position + 1)

    def move_user_commands(self) -> None:
        cdef size_t position = self.world.native.truth.user_commands.next(0)
        while position < self.world.native.truth.user_commands.end():
            (&self.world.native.truth.user_commands.value_at(position))[0] += 1
            position = self.world.native.truth.user_commands.next(position + 1)

    def blame_frames(self) -> None:
        cdef size_t i
        for i in range(self.world.native.events.heap.size):
            if self.world.native.events.heap.data[i].kind == SIM_FRAME:
                (<SimFrame*>self.world.native.events.heap.data[i].data).is_corrupt = True

    def forget_memberships(self) -> None:
        """As if no membership had been committed but the founding one."""
        self.world.native.truth.committed_memberships.clear()

    def change_memberships(self) -> None:
        """As if each committed membership had other bytes than those that the nodes work under."""
        cdef size_t i
        cdef int number
        for i in range(self.world.native.truth.committed_memberships.size):
            self.world.native.truth.committed_memberships.data[i].hash ^= 2
        for number in range(self.world.native.config.nodes):
            self.world.native.nodes[number].membership_checked = 0

    def ask_later(self, more_ns: int) -> None:
        """As if every call that is open, and every question to a leader, had been asked so much later."""
        cdef size_t i
        cdef int place
        cdef SimCall* calls
        for i in range(self.world.native.call_blocks.size):
            calls = <SimCall*>self.world.native.call_blocks.data[i]
            for place in range(CALL_BLOCK):
                calls[place].called_ns += <uint64_t>more_ns
        i = self.world.native.truth.questions.next(0)
        while i < self.world.native.truth.questions.end():
            (&self.world.native.truth.questions.value_at(i))[0] += <uint64_t>more_ns
            i = self.world.native.truth.questions.next(i + 1)

    def age_rounds(self, number: int, ns: int) -> None:
        """As if all rounds of this node had been sent so much earlier."""
        cdef SimNode* node = self._node(number)
        cdef size_t i
        node.proven_ns -= min(<uint64_t>ns, node.proven_ns)
        for i in range(node.rounds_sent.size):
            node.rounds_sent.data[i] -= min(<uint64_t>ns, node.rounds_sent.data[i])
        for i in range(MEMBERS_MAX):
            node.heard[i].sent_ns -= min(<uint64_t>ns, node.heard[i].sent_ns)

    def shown_next(self, number: int, watch: int) -> int:
        return self._node(number).watches[<unsigned>watch].next_revision

    def history_floor(self, number: int) -> int:
        cdef MachineStatus machine
        machine_status(self._node(number).engine.machine, &machine)
        return machine.compacted

    def show(self, number: int, watch: int, item: bytes) -> None:
        """As if the watch had shown this item."""
        cdef SimNode* node = self._node(number)
        watches_check_item(self.world.native, node, &node.watches[<unsigned>watch], item, <unsigned>len(item))

    def lose_outcome(self, number: int, session: int, status: int) -> None:
        """As if a delete in this session, 0: the node's own, had been answered so."""
        cdef SimNode* node = self._node(number)
        cdef SimCall* call = call_take(self.world.native, node, CALL_DELETE)
        if call == NULL:
            raise MemoryError
        call.session = <uint64_t>session or node.engine.session.id
        workload_done(self.world.native, node, call, <status_t>(<int>status), 0, 0, NULL, 0)

    def answer_counts(self) -> None:
        """As if every number that a counter of a client may come to had been answered to somebody before."""
        cdef uint64_t number, client
        cdef uint64_t* seen
        for client in range(SIM_CLIENTS):
            for number in range(1, 100_000):
                seen = self.world.native.truth.numbers.insert(number << 8 | 0x80 | client)
                if seen == NULL:
                    raise MemoryError
                seen[0] = 1

    def hang_hosts(self) -> None:
        """The Python of every node stands still for good, and no engine is told to mind."""
        cdef int number
        for number in range(self.world.native.config.nodes):
            self._node(number).hung_until_ns = ~<uint64_t>0
            self._node(number).engine.config.host_watchdog_ns = 0

    def change_rights_key(self) -> None:
        """A key of the principals has another value than what they were allowed to write."""
        self.world.native.rights.keys[0].value ^= 1

    def forget_grants(self) -> None:
        """Take all grants out of the model, as if the admin had made none."""
        cdef int role, place
        for role in range(SIM_ROLES):
            for place in range((SIM_RIGHTS_KEYS + 1) * (SIM_RIGHTS_KEYS + 1)):
                self.world.native.rights.roles[role].grants[place] = 0

    # The addresses of the znode's newest version on all nodes that are up.
    cdef list _entries_of(self, SimZnode* znode):
        cdef SimNode* node
        cdef int number
        cdef list found = []
        for number in range(self.world.native.config.nodes):
            node = &self.world.native.nodes[number]
            if node.is_up and node.engine != NULL and node.engine.machine != NULL:
                found.append(<uint64_t>tree_find(node.engine.machine.tree, znode.key, <uint16_t>znode.length))
        return [address for address in found if address]

    # The next look at a node is a whole one.
    cdef _look_again(self):
        self.world.native.znodes.checked = 0
        self.world.native.znodes.changed = max(self.world.native.znodes.changed, <uint64_t>1)

    def count_child(self) -> None:
        """Every node's root counts a child more than there is."""
        cdef SimZnode* znode = &self.world.native.znodes.nodes.data[0]
        cdef ZnodeView view
        for address in self._entries_of(znode):
            if znode_view(<const Entry*><uint64_t>address, &view):
                (<ZnodeMeta*>view.meta).children += 1
        self._look_again()

    def orphan(self) -> int:
        """Every node forgets that one znode with children is one. How many it could be."""
        cdef size_t i
        cdef int found = 0
        for i in range(self.world.native.znodes.nodes.size):
            if self.world.native.znodes.nodes.data[i].children == 0 or found:
                continue
            for address in self._entries_of(&self.world.native.znodes.nodes.data[i]):
                (<Entry*><uint64_t>address).flags &= ~<int>ENTRY_ZNODE
            found += 1
        self._look_again()
        return found

    def orphan_ephemerals(self) -> int:
        """Every node has its ephemerals under leases that nobody was granted. How many there are."""
        cdef size_t i
        cdef int found = 0
        for i in range(self.world.native.znodes.nodes.size):
            if self.world.native.znodes.nodes.data[i].kind != SIM_EPHEMERAL:
                continue
            for address in self._entries_of(&self.world.native.znodes.nodes.data[i]):
                (<Entry*><uint64_t>address).lease ^= 2
            found += 1
        self._look_again()
        return found

    def give_numbers(self) -> None:
        """As if the next hundred numbers of every parent had been given before."""
        cdef char[16] text
        cdef SimZnode* znode
        cdef uint64_t* given
        cdef uint64_t parent
        cdef uint32_t number
        cdef size_t i
        cdef int length
        for i in range(self.world.native.znodes.nodes.size):
            znode = &self.world.native.znodes.nodes.data[i]
            path = znode.key[:znode.length].partition(b"/")[2]
            name = b"/" + path + (b"/" if path else b"")
            for number in range(znode.creates, znode.creates + 100):
                length = snprintf(text, 16, b"%u", number) if number else 0
                parent = hash64(znode.czxid, <const char*>name, len(name))
                given = self.world.native.znodes.numbers.insert(hash64(parent, text, length))
                if given == NULL:
                    raise MemoryError
                given[0] = 1

    def shift_zxids(self) -> None:
        """As if every entry that changed znodes had made the revision behind its own."""
        cdef size_t i
        for i in range(self.world.native.znodes.zxids.size):
            if self.world.native.znodes.zxids.data[i].revision:
                self.world.native.znodes.zxids.data[i].revision += 1
        self._look_again()

    def refuse_answered(self) -> int:
        """As if a request that was done had come before the one in front of it. How many it could be."""
        cdef SimDoorCommand* command
        cdef uint64_t newest = 0
        cdef int found = 0
        cdef int i
        for i in range(SIM_DOOR_WINDOW):
            command = &self.world.native.doors[0].commands[i]
            if command.payload.size != 0 and command.is_answered and command.is_judged:
                newest = max(newest, command.sequence)
                found += 1
        self.world.native.znodes.refused_session = self.world.native.doors[0].session
        self.world.native.znodes.refused_sequence = newest
        return found

    def change_versions(self) -> None:
        """As if every znode had been written once more."""
        cdef size_t i
        for i in range(self.world.native.znodes.nodes.size):
            self.world.native.znodes.nodes.data[i].version += 1
        self._look_again()

    cdef SimGroups* _groups(self) except NULL:
        if self.world.native.groups == NULL:
            raise ValueError("a world without worker groups")
        return <SimGroups*>self.world.native.groups

    def change_leader(self) -> bool:
        """As if somebody else had led a group in the generation that goes on. False: no group has a leader now."""
        cdef SimGroups* groups = self._groups()
        cdef int i
        for i in range(SIM_GROUPS):
            if groups.views[i].state >= <uint32_t>GROUP_COMPLETING:
                groups.views[i].leader.bytes[0] ^= 1
                return True
        return False

    def raise_fences(self) -> None:
        """As if every group had had a generation of a fence that no generation reaches."""
        cdef int i
        for i in range(SIM_GROUPS):
            self._groups().truths[i].newest_fence = ~<uint64_t>0

    def take_old_sync(self) -> bool:
        """As if a member had synced for the generation before, and nobody had minded. False: no group is stable."""
        cdef SimGroups* groups = self._groups()
        cdef ApplyResult result
        cdef int i
        memset(&result, 0, sizeof(ApplyResult))
        memset(&groups.request, 0, sizeof(groups.request))
        for i in range(SIM_GROUPS):
            if groups.views[i].state != GROUP_STABLE or groups.views[i].count == 0:
                continue
            groups.request.verb = GROUP_SYNC
            groups.request.member = id_bytes(&groups.views[i].leader)
            groups.request.generation = groups.views[i].generation - 1
            groups_judge_request(self.world.native, groups, &groups.views[i], GROUP_SYNC, &result)
            return True
        return False

    def change_assignments(self) -> None:
        """As if the resources of every group had been shared in the generation behind its own."""
        cdef int i
        for i in range(SIM_GROUPS):
            self._groups().truths[i].generation += 1

    def add_member(self) -> None:
        """As if every group had had a member more that nobody saw go."""
        cdef SimGroups* groups = self._groups()
        cdef int i
        for i in range(SIM_GROUPS):
            groups.views[i].members[groups.views[i].count].id.length = 1
            groups.views[i].count += 1

    def disown(self) -> bool:
        """As if the resources of every group belonged to nobody. False: no group is stable."""
        cdef SimGroups* groups = self._groups()
        cdef bint found = False
        cdef int i, resource
        for i in range(SIM_GROUPS):
            found = found or groups.views[i].state == GROUP_STABLE
            for resource in range(SIM_GROUP_RESOURCES):
                groups.truths[i].owners[resource].length = 0
        return found

    def change_member_leases(self) -> bool:
        """As if each member had had another lease an entry ago. False: no group has a member."""
        cdef SimGroups* groups = self._groups()
        cdef bint found = False
        cdef int i
        cdef size_t member
        for i in range(SIM_GROUPS):
            for member in range(groups.views[i].count):
                found = found or not groups.views[i].members[member].is_pending
                groups.views[i].members[member].lease ^= 1
        return found

    cdef SimTopics* _topics(self) except NULL:
        if self.world.native.topics == NULL:
            raise ValueError("a world without topics")
        return <SimTopics*>self.world.native.topics

    def shift_offsets(self) -> None:
        """As if every record log had been given one offset more."""
        cdef int i
        for i in range(SIM_LOGS):
            self._topics().logs[i].next += 1

    def change_records(self) -> None:
        """As if every record had another value."""
        cdef SimLog* log
        cdef int i
        cdef size_t place
        for i in range(SIM_LOGS):
            log = &self._topics().logs[i]
            for place in range(log.records.size):
                log.records.data[place].value ^= 1 << 60

    def raise_epochs(self) -> None:
        """As if every producer had begun an epoch that it never reaches."""
        cdef int i, producer
        for i in range(SIM_LOGS):
            for producer in range(SIM_PRODUCERS):
                self._topics().logs[i].producers[producer].epoch = 1 << 20

    def replace_records(self) -> bool:
        """As if the first record of each log had a later one of its key. False: no log has two."""
        cdef SimLog* log
        cdef bint found = False
        cdef int i
        cdef size_t place
        for i in range(SIM_LOGS):
            log = &self._topics().logs[i]
            found = found or log.records.size > 1
            for place in range(1, log.records.size):
                log.records.data[place - 1] = log.records.data[place]
            log.records.size -= log.records.size > 0
        return found

    def extend_topics(self) -> bool:
        """As if every topic had more partitions. False: there is none."""
        cdef bint found = False
        cdef int i
        for i in range(SIM_TOPICS):
            found = found or self._topics().topics[i].exists
            self._topics().topics[i].partitions += 7
        return found

    def move_offsets(self) -> bool:
        """As if every offset had been committed once more. False: there is none."""
        cdef SimOffset* offset
        cdef bint found = False
        cdef int group, topic, partition
        for group in range(SIM_GROUPS + 1):
            for topic in range(SIM_TOPICS):
                for partition in range(SIM_PARTITIONS):
                    offset = &self._topics().groups[group].offsets[topic][partition]
                    found = found or offset.exists
                    offset.offset += 1
        return found

    def fill_queues(self, number: int) -> None:
        self._node(number).engine.config.outstanding_max = 0

    def rename(self, number: int) -> None:
        self._node(number).id ^= 1

    def hide_events(self) -> None:
        cdef size_t revision
        for revision in range(self.world.native.truth.is_quiet.size):
            self.world.native.truth.is_quiet.data[revision] = True
        self.world.native.nodes[0].watches[1].next_revision = 1

    def cut_at_sync(self, number: int, call: int, is_after: bool) -> None:
        cdef SimNode* node = self._node(number)
        node.disk.faults.cut_at_sync = call
        node.disk.faults.cut_after_sync = is_after
