"""The simulated world from Python: build it from a seed, run it, read what happened."""

from collections.abc import Iterable

INVARIANTS: dict[int, str]
FAULTS: tuple[str, ...]
KINDS: tuple[str, ...]
POINTS: dict[str, int]
NOTES: dict[int, str]
SWARMS: tuple[str, ...]

def swarm_profile(seed: int, kind: str = "swarm") -> dict[str, int]:
    """The arguments of World that the seed chooses.

    kind: `dense`, each fault is there with p = 0.5; `sparse`, two to six kinds of faults and no other, at high rates;
    `swarm`, one of the two, which the seed chooses with even chance.
    Raises ValueError for another kind.
    """

class World:
    """A simulated cluster. The same arguments give the same history, to the byte (trace_hash).

    seed: any integer, taken modulo 2**64. nodes: 1 to 7. segment_bytes: size of a log segment, from 4096.
    sector_bytes: 512 or 4096, what a power cut keeps, loses or tears. faults: rates by the names in FAULTS; `_ppm`
    are millionths (of frames, of fault events or of syncs; drift_ppm: of time itself), `_us` microseconds; and rates of
    buggify points by the names in POINTS, in millionths of the times at which a point is asked.
    history_bytes_max: what watches may resume from. lease_ttl_ms: of the leases that clients keep.
    snapshot_entries: between two snapshots, 0: none is taken; snapshot_chunk_bytes: what one step of a snapshot writes, and one frame of its transfer carries.
    tick_ms: from 1; what faults last is stretched with it. election_timeout_ticks: at least, from 10. append_bytes_max: records of one APPEND.
    rest_us: the longest time for which all clients pause, 0: they never do; busy_us: mean time between two of these.
    checkpoints: 1: nodes keep their own copies behind the checkpoint port, as they do in production.
    users: 1: clients also give commands to a user machine, of which each node has a copy.
    user_large_ppm: of these commands, in millionths, as many are so large that some of them make a dump due.
    background_us: the longest time for which a job of the background waits beyond its turn while others are done;
    0: a node's disk does all jobs as they came, which tapes of old need and production does not do.
    turn_us: the least time between two turns of a node's loop while there are faults, as on a machine that is too busy.
    early_campaigns: 1: members that have heard no leader ask before their time-out, as they do in production; 0: the
    cluster is without a leader for longer, which tapes of old need.
    lease_reads: 1: leaders serve reads by their lease. log_memory_bytes: of records that are applied and stay in memory,
    0: all do. snapshot_log_bytes: of records between two snapshots at most, 0: only snapshot_entries counts.
    free_bytes_min: a log with less room takes no growth, and a leader without room hands over; 0: nobody minds.
    host_watchdog_ms: leases are let go when the Python of their process stands still for longer; 0: they are not.
    client_window: commands that a client of another process has under way, 1 to 8; 1: one after the other.
    session_window: results that a node's own session keeps, and commands that may wait in it; 0: 256 and 128.
    silent_ends: 1: every second process that ends tells nobody, so its connections look open until a frame meets nobody.
    ruin: 1: disks fail without regard to what the cluster can survive; settle then asks for no progress.
    encryption: 1: files of the nodes are encrypted, all with one key that the seed makes.
    rights: 1: rights are turned on, principals try what they may, and an admin changes that. Not in ruin.
    znodes: 1: doors ask for znodes on behalf of owners whose leases come and go. Not in ruin.
    groups: 1: clients join worker groups, work under the fences of their assignments, hang and leave. Not in ruin.
    topics: 1: clients make topics, produce to record logs and commit offsets, with groups also as members. Not in ruin.
    old_level: > 0: most nodes say in their HELLOs that they know no higher feature level, in the first upgrade_ms.
    processes: 1: sessions and leases of nodes end when their process is gone, and for half of the seeds something rejects
        connections between two nodes.
    observers: so many of the nodes, the last ones, hold no place in the membership.
    feeds_max: observers that one node feeds. seeds: nodes, the first ones, that an observer knows when it is made.
        0: the number of a real node, and all nodes.
    Raises ValueError for an unknown fault, a wrong number of nodes or a wrong window.
    """

    def __init__(
        self,
        seed: int,
        *,
        nodes: int = 3,
        segment_bytes: int = 65536,
        sector_bytes: int = 512,
        history_bytes_max: int = 65536,
        lease_ttl_ms: int = 1000,
        snapshot_entries: int = 300,
        snapshot_chunk_bytes: int = 2048,
        tick_ms: int = 10,
        election_timeout_ticks: int = 50,
        append_bytes_max: int = 262144,
        rest_us: int = 0,
        busy_us: int = 1_000_000,
        checkpoints: int = 0,
        users: int = 0,
        user_large_ppm: int = 0,
        background_us: int = 0,
        turn_us: int = 0,
        early_campaigns: int = 0,
        lease_reads: int = 0,
        log_memory_bytes: int = 0,
        snapshot_log_bytes: int = 0,
        free_bytes_min: int = 0,
        host_watchdog_ms: int = 0,
        client_window: int = 1,
        session_window: int = 0,
        silent_ends: int = 0,
        ruin: int = 0,
        encryption: int = 0,
        rights: int = 0,
        znodes: int = 0,
        groups: int = 0,
        topics: int = 0,
        old_level: int = 0,
        upgrade_ms: int = 0,
        processes: int = 0,
        observers: int = 0,
        feeds_max: int = 0,
        seeds: int = 0,
        **faults: int,
    ) -> None: ...
    @staticmethod
    def swarm(seed: int, kind: str = "swarm") -> World:
        """The world whose size and faults the seed chooses too. kind: as of swarm_profile."""

    def follow(self, tape: Iterable[tuple[int, str]]) -> None:
        """Before the first event: exactly these faults strike, as World.tape names them, whatever the rates say.

        Raises ValueError for an unknown kind, or when events have been handled.
        """

    def strike(self, kind: str) -> None:
        """Let this fault strike at the next fault event of a world that follows a tape: the tape grows by it.

        kind: one of KINDS; `heal` ends what faults left behind, `calls` lets all clients call. Once at one event.
        Raises ValueError for another kind, or when the world follows no tape.
        """

    def keep_story(self) -> None:
        """From now on keep what a diagram needs."""

    def run(self, events: int) -> int:
        """Handle up to `events` more events without the GIL; return how many. It stops at the first violation."""

    def settle(self, events_max: int = 2_000_000) -> None:
        """Heal everything and wait, in simulated time, until the cluster has converged; then compare everything."""

    @property
    def violation(self) -> str | None:
        """The first invariant that did not hold, with where and the numbers that contradict it; None: all held."""

    @property
    def tape(self) -> list[tuple[int, str]]:
        """The faults that struck: at which of the fault events, and of which kind."""

    def story(self) -> list[dict[str, int | str]]:
        """The story since keep_story was called; of a long run the end."""

    @property
    def profile(self) -> dict[str, int]:
        """The arguments that make this world again, beside its seed."""

    @property
    def trace_hash(self) -> int:
        """A hash of every event and frame so far."""

    @property
    def counts(self) -> dict[str, int]:
        """Counts so far: events, frames, faults, calls and their fates."""

    @property
    def buggified(self) -> dict[str, int]:
        """The buggify points that fired so far, as a profile names them, and how often."""

    @property
    def simulated_s(self) -> float:
        """Simulated seconds since the world began."""

    def nodes(self) -> list[dict[str, int]]:
        """Each node's view of itself now; a node that is down has only `number` and `is_up`."""

    @property
    def committed(self) -> int:
        """The greatest index committed anywhere."""
