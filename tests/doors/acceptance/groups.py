"""Real clients of Kafka in groups: they join, share, leave, are killed, and come back as the same member.

On a real Kafka each client is run alone, through a proxy that keeps its requests. Requests and versions must be those
that were recorded (tests/doors/kafka_trace.py); docs/kafka-requests.md shows them as a table. On raftmeta the clients
speak with three nodes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.doors import kafka_trace
from tests.doors.acceptance.trial import Trial
from tests.doors.kafka_broker import LOGGING, PASSWORD, USER, KafkaBroker
from tests.doors.kafka_frames import KafkaConversation
from tests.doors.kafka_nodes import KafkaNodes, enable_rights
from tests.doors.kafka_workers import share_connectors
from tests.doors.servers import JAVA
from tests.doors.software import (
    AIOKAFKA_VERSION,
    CONFLUENT_VERSION,
    FRANZ_GO_VERSION,
    KAFKA,
    KAFKA_CLIENTS,
    KAFKA_CLIENTS_VERSION,
    KAFKA_PYTHON_VERSION,
    KAFKA_TOOLS,
    KAFKA_VERSION,
    PROGRAMS,
    Jars,
    compiled,
    franz_go_client,
    java,
    kafka_python_clients,
)
from tests.doors.tap import AnyTap
from tests.processes.program import Program, run_program
from tests.processes.waiting import free_addresses, wait_until

PARTITIONS = 4
RECORDS = 40
SESSION_MS = 6000
STATIC_SESSION_MS = 45_000  # a program must be back before, also on a busy machine
CONSUMER_SESSION_S = 20.0  # the same of members whose sessions the server decides
BEAT_MS = 500
CHANGE_S = 60.0
STOP_S = 30.0
TOOL_S = 60.0
SASL_TOPICS = ("plain", "scram")
BY_SERVER = ("group.protocol=consumer",)
LOGIN = "org.apache.kafka.common.security"


@dataclass(frozen=True, slots=True)
class Client:
    """A kind of member. version: of the client. command: of one, for an address, a group, a topic, an instance or "".

    has_topic: its shares are partitions of a topic. leaves_first: a static member is replaced only after it said that
    it goes, and a second holder of its name is refused. Otherwise the second holder takes its place. is_told: the first
    holder then ends with an error. Without it the first holder joins again and takes the name back (aiokafka), or
    believes for ever that it holds its share (kafka-python).
    """

    name: str
    version: str
    command: Callable[[str, str, str, str], list[str]]
    environment: tuple[tuple[str, str], ...] = ()
    has_topic: bool = True
    leaves_first: bool = False
    is_told: bool = True


class Member:
    """One member as a process. events: what it was told, each as a list of words."""

    def __init__(self, program: Program) -> None:
        self.program = program

    @property
    def events(self) -> list[list[str]]:
        log = self.program.log.read_text(errors="replace") if self.program.log.exists() else ""
        return [line.split()[1:] for line in log.splitlines() if line.startswith("event ")]

    @property
    def held(self) -> set[int]:
        """The partitions that it holds, by what it was told."""
        held: set[int] = set()
        for word, *rest in self.events:
            if word == "assigned":
                held |= set(map(int, rest))
            elif word in ("revoked", "lost"):
                held -= held if rest == ["all"] else set(map(int, rest))
        return held

    @property
    def read(self) -> int:
        """Records."""
        return max((int(rest[0]) for word, *rest in self.events if word == "read"), default=0)

    def has(self, word: str) -> bool:
        return any(event[0] == word for event in self.events)

    def shares(self) -> list[list[str]]:
        """The events that tell it what it holds."""
        return [event for event in self.events if event[0] in ("assigned", "revoked", "lost")]

    def close(self) -> None:
        """SIGTERM, after which it tells that it closed."""
        self.program.end(timeout_s=STOP_S)
        assert self.has("closed"), f"it did not close\n{self.program.log_tail()}"


def java_client(jars: Jars, *settings: str) -> Callable[[str, str, str, str], list[str]]:
    """A KafkaConsumer of these jars."""

    def command(address: str, group: str, topic: str, instance: str) -> list[str]:
        words = [java(), "-Xmx96m", *JAVA, "-cp", compiled("GroupConsumer", jars), "GroupConsumer"]
        static = [f"group.instance.id={instance}", f"session.timeout.ms={STATIC_SESSION_MS}"] if instance else []
        if any(setting in settings for setting in BY_SERVER):
            static = static[:1]  # the server decides how long sessions last
        return [*words, address, group, topic, *settings, *static]

    return command


def classic(*settings: str) -> tuple[str, ...]:
    return (f"session.timeout.ms={SESSION_MS}", f"heartbeat.interval.ms={BEAT_MS}", *settings)


def assignor(name: str) -> str:
    return f"partition.assignment.strategy=org.apache.kafka.clients.consumer.{name}Assignor"


def python_client(name: str, assigned_by: str = "") -> Callable[[str, str, str, str], list[str]]:
    """A client in Python: tests/doors/programs/group_member.py."""

    def command(address: str, group: str, topic: str, instance: str) -> list[str]:
        words = [sys.executable, str(PROGRAMS / "group_member.py"), name, address, group, topic, assigned_by, instance]
        return words

    return command


def go_client(assigned_by: str) -> Callable[[str, str, str, str], list[str]]:
    """A client in Go: tests/doors/programs/GroupMember.go."""

    def command(address: str, group: str, topic: str, instance: str) -> list[str]:
        words = [str(franz_go_client("GroupMember")), address, group, topic, assigned_by]
        return [*words, *([instance] if instance else [])]

    return command


def own_coordinator(address: str, group: str, topic: str, instance: str, *settings: str) -> list[str]:
    """A subclass of the Java client's AbstractCoordinator."""
    words = [java(), "-Xmx96m", *JAVA, "-cp", compiled("GroupCoordinator", KAFKA), "GroupCoordinator"]
    return [*words, address, group, *([instance] if instance else []), *settings]


def clients() -> list[Client]:
    path = (("PYTHONPATH", str(kafka_python_clients())),)
    v3, v4 = KAFKA_VERSION, KAFKA_CLIENTS_VERSION
    own = classic(assignor("CooperativeSticky"))
    return [
        Client("java 3.9 range", v3, java_client(KAFKA, *classic(assignor("Range")))),
        Client("java 3.9 cooperative", v3, java_client(KAFKA, *own)),
        Client("java 3.9 consumer", v3, java_client(KAFKA, *BY_SERVER), leaves_first=True),
        Client("java 4 range", v4, java_client(KAFKA_CLIENTS, *classic(assignor("Range")))),
        Client("java 4 cooperative", v4, java_client(KAFKA_CLIENTS, *own)),
        Client("java 4 consumer", v4, java_client(KAFKA_CLIENTS, *BY_SERVER), leaves_first=True),
        Client("java AbstractCoordinator", v3, own_coordinator, has_topic=False),
        Client("librdkafka range", CONFLUENT_VERSION, python_client("confluent"), path),
        Client("librdkafka cooperative", CONFLUENT_VERSION, python_client("confluent", "cooperative-sticky"), path),
        Client("aiokafka", AIOKAFKA_VERSION, python_client("aiokafka"), path, is_told=False),
        Client("kafka-python range", KAFKA_PYTHON_VERSION, python_client("kafka_python", "range"), path, is_told=False),
        Client(
            "kafka-python cooperative",
            KAFKA_PYTHON_VERSION,
            python_client("kafka_python", "cooperative"),
            path,
            is_told=False,
        ),
    ]


def clients_of_nodes() -> list[Client]:
    """Those that are run on nodes of raftmeta. Kafka 3.9 has an early KIP-848, which librdkafka does not use. The
    requests of franz-go are not recorded.
    """
    path = (("PYTHONPATH", str(kafka_python_clients())),)
    server = python_client("confluent", "server")
    return [
        *clients(),
        Client("librdkafka consumer", CONFLUENT_VERSION, server, path, leaves_first=True),
        *(Client(f"franz-go {one}", FRANZ_GO_VERSION, go_client(one)) for one in ("range", "cooperative")),
    ]


class Group:
    """One group of members of one kind, whose programs all end with the context."""

    def __init__(self, client: Client, address: str, folder: Path, topic: str) -> None:
        self.client = client
        self.name = f"group-{topic}"
        self._address = address
        self._folder = folder
        self._topic = topic
        self._members: list[Member] = []

    def member(self, instance: str = "") -> Member:
        """One more, which starts."""
        log = self._folder / f"member{len(self._members)}.log"
        command = self.client.command(self._address, self.name, self._topic, instance)
        member = Member(Program(command, log=log, environment=dict(self.client.environment)))
        self._members.append(member)
        member.program.start()
        return member

    def share(self, *members: Member) -> None:
        """Wait until these hold all partitions, each as many as the others and none twice."""
        each = PARTITIONS // len(members)

        def shared() -> bool:
            held = [member.held for member in members]
            return all(len(one) == each for one in held) and len(set().union(*held)) == PARTITIONS

        def now() -> str:
            tails = (f"{member.events}\n{member.program.log_tail()[-1500:]}" for member in members)
            return f"{len(members)} members to share {PARTITIONS} partitions\n" + "\n".join(tails)

        wait_until(shared, timeout_s=CHANGE_S, what=now, pause_s=0.05)

    def kill(self) -> None:
        for member in self._members:
            member.program.kill()


def read_all(member: Member) -> None:
    wait_until(lambda: member.read == RECORDS, timeout_s=CHANGE_S, what=f"{RECORDS} records to be read", pause_s=0.05)


def live(trial: Trial, group: Group) -> None:
    """All that happens to a group."""
    client = group.client
    with trial.check(f"{client.name}: join"):
        first = group.member()
        group.share(first)
        if client.has_topic:
            read_all(first)
    with trial.check(f"{client.name}: rebalance"):
        second = group.member()
        group.share(first, second)
    with trial.check(f"{client.name}: leave"):
        second.close()
        group.share(first)
    with trial.check(f"{client.name}: kill"):
        third = group.member()
        group.share(first, third)
        third.program.kill()
        group.share(first)
        first.close()
    with trial.check(f"{client.name}: static restart"):
        one, two = group.member("one"), group.member("two")
        group.share(one, two)
        shares, held = one.shares(), two.held
        if client.leaves_first:
            two.close()
        else:
            two.program.kill()
        again = group.member("two")
        wait_until(lambda: again.held == held, timeout_s=CHANGE_S, what=lambda: f"{held}: {again.events}", pause_s=0.05)
        assert one.shares() == shares, f"the other member was told more: {one.shares()[len(shares) :]}"
    with trial.check(f"{client.name}: second holder"):
        other = group.member("two")
        if not client.is_told:
            wait_until(lambda: other.held == held, timeout_s=CHANGE_S, what=lambda: f"{other.events}", pause_s=0.05)
            return
        refused, taken = (other, again) if client.leaves_first else (again, other)
        wait_until(lambda: refused.has("failed"), timeout_s=CHANGE_S, what=lambda: f"{refused.events}", pause_s=0.05)
        wait_until(lambda: taken.held == held, timeout_s=CHANGE_S, what=lambda: f"{taken.events}", pause_s=0.05)
        for member in (one, taken):
            member.close()


def proven(trial: Trial, tap: AnyTap[KafkaConversation], folder: Path) -> None:
    """Members that prove who they are."""
    mechanisms = (("PLAIN", "plain.PlainLoginModule"), ("SCRAM-SHA-256", "scram.ScramLoginModule"))
    for topic, (mechanism, module) in zip(SASL_TOPICS, mechanisms, strict=True):
        known = len(tap.conversations)
        login = f'sasl.jaas.config={LOGIN}.{module} required username="{USER}" password="{PASSWORD}";'
        words = classic("security.protocol=SASL_PLAINTEXT", f"sasl.mechanism={mechanism}", login)
        place = folder / mechanism
        place.mkdir()
        group = Group(Client("", KAFKA_VERSION, java_client(KAFKA, *words)), tap.address, place, topic)

        def has_beaten(first: int = known) -> bool:
            return any(asked.name == "Heartbeat" for one in tap.conversations[first:] for asked in one.asked)

        try:
            with trial.check(f"java 3.9 SASL {mechanism}: join"):
                member = group.member()
                group.share(member)
                read_all(member)
                wait_until(has_beaten, timeout_s=CHANGE_S, what="a heartbeat", pause_s=0.05)
                member.close()
        finally:
            group.kill()


def tools_of_consumers(trial: Trial, address: str, folder: Path, topic: str) -> None:
    """kafka-consumer-groups.sh of Kafka 4, asked about a consumer group."""
    client = next(client for client in clients() if client.name == "java 4 consumer")
    group = Group(client, address, folder, topic)
    main = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    command = [java(), "-Xmx96m", *JAVA, "-cp", KAFKA_TOOLS.class_path(), main, "--bootstrap-server", address]
    named = ("--group", group.name)
    asked = (
        (("--list", "--type"), "Consumer"),
        (("--describe", *named, "--offsets", "--verbose"), topic),
        (("--describe", *named, "--state", "--verbose"), "uniform"),
        (("--describe", *named, "--members", "--verbose"), f"{topic}:0,1,2,3"),
    )
    try:
        with trial.check("kafka-consumer-groups 4: consumer group"):
            member = group.member()
            group.share(member)
            read_all(member)
            for number, (words, said) in enumerate(asked):
                log = folder / f"tool{number}.log"
                run_program([*command, *words], log=log, timeout_s=TOOL_S)
                assert said in (answer := log.read_text()), f"{words}: no {said!r} in {answer}"
            member.close()
            log = folder / "delete.log"
            run_program([*command, "--delete", *named], log=log, timeout_s=TOOL_S)
            assert "successful" in (answer := log.read_text()), answer
    finally:
        group.kill()


def tools(trial: Trial, address: str, folder: Path, topic: str) -> None:
    """kafka-consumer-groups.sh, asked for all that it does with a living group, and with an empty one."""
    group = Group(clients()[0], address, folder, topic)
    logging = folder / "log4j.properties"
    logging.write_text(LOGGING.replace("INFO", "WARN"))
    asked = 0

    def tool(*words: str) -> str:
        nonlocal asked
        asked += 1
        log = folder / f"tool{asked}.log"
        main = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
        command = [java(), "-Xmx96m", *JAVA, f"-Dlog4j.configuration=file:{logging}", "-cp", KAFKA.class_path(), main]
        run_program([*command, "--bootstrap-server", address, *words], log=log, timeout_s=TOOL_S)
        return log.read_text()

    named = ("--group", group.name)
    try:
        with trial.check("kafka-consumer-groups: living group"):
            member = group.member()
            group.share(member)
            read_all(member)
            for words, said in (
                (("--list",), group.name),
                (("--list", "--state"), "Stable"),
                (("--describe", *named), topic),
                (("--describe", *named, "--state"), "range"),
                (("--describe", *named, "--members", "--verbose"), "java"),
            ):
                assert said in (answer := tool(*words)), f"{words}: no {said!r} in {answer}"
            member.close()
        with trial.check("kafka-consumer-groups: empty group"):
            for words, said in (
                (("--reset-offsets", *named, "--topic", topic, "--to-earliest", "--execute"), topic),
                (("--delete-offsets", *named, "--topic", topic), "Successful"),
                (("--delete", *named), "successful"),
            ):
                assert said in (answer := tool(*words)), f"{words}: no {said!r} in {answer}"
    finally:
        group.kill()


@contextmanager
def served(trial: Trial) -> Iterator[tuple[AnyTap[KafkaConversation], AnyTap[KafkaConversation]]]:
    """A real Kafka behind two proxies: the second for clients that prove who they are."""
    address, sasl_address = free_addresses(2)
    with ExitStack() as stack:
        taps = [stack.enter_context(AnyTap(one, KafkaConversation)) for one in (address, sasl_address)]
        place = trial.folder / "broker"
        broker = KafkaBroker(
            place,
            advertised=taps[0].address,
            sasl_advertised=taps[1].address,
            address=address,
            sasl_address=sasl_address,
        )
        with trial.check("Kafka serves"):
            stack.enter_context(broker)
        yield taps[0], taps[1]


def make_topics(trial: Trial, address: str, topics: Sequence[str]) -> None:
    """Each with records."""
    command = [java(), "-Xmx128m", *JAVA, "-cp", compiled("KafkaClient", KAFKA), "KafkaClient", address, address]
    with Program(command, log=trial.folder / "topics.log", talks=True) as program:
        for topic in topics:
            for line in (f"topic {topic} {PARTITIONS} 1", f"produce {topic} {RECORDS}"):
                answer = program.ask(line)
                assert answer.startswith("ok"), f"{line}: {answer}"


def run(trial: Trial, *, only: str = "", write: bool = False) -> None:
    """only: words of names of clients, as `java|aiokafka`."""
    wanted = only.split("|")
    known = clients() if trial.kind == "kafka" else clients_of_nodes()
    chosen = [client for client in known if any(word in client.name for word in wanted)]
    if trial.kind == "kafka":
        on_kafka(trial, chosen, wanted, write=write)
    else:
        on_nodes(trial, chosen, wanted)
        if any(word in "java 3.9 SASL" for word in wanted):
            proven_on_nodes(trial)


def on_nodes(trial: Trial, chosen: Sequence[Client], wanted: Sequence[str]) -> None:
    """Three nodes of raftmeta. Clients that read topics need them there."""
    topics = {client.name: f"topic{number}" for number, client in enumerate(chosen)}
    others: dict[str, Callable[[str, Path], None]] = {
        "kafka-consumer-groups": lambda address, place: tools(trial, address, place, "tools"),
        "kafka-consumer-groups 4": lambda address, place: tools_of_consumers(trial, address, place, "tools4"),
        "connect": lambda address, place: share_connectors(trial, address, place),
    }
    others = {name: doing for name, doing in others.items() if any(word in name for word in wanted)}
    with ExitStack() as stack:
        settings = {"kafka_consumer_session_s": CONSUMER_SESSION_S, "kafka_consumer_beat_s": BEAT_MS / 1000}
        nodes = KafkaNodes(trial.folder / "nodes", **settings)
        with trial.check("the nodes serve"):
            stack.enter_context(nodes)
        needed = [topics[client.name] for client in chosen if client.has_topic]
        needed += ["tools"] if "kafka-consumer-groups" in others else []
        needed += ["tools4"] if "kafka-consumer-groups 4" in others else []
        if needed:
            with trial.check("topics are made"):
                make_topics(trial, nodes.address, needed)
        for client in chosen:
            place = trial.folder / topics[client.name]
            place.mkdir()
            group = Group(client, nodes.address, place, topics[client.name])
            try:
                live(trial, group)
            except Exception as error:  # the next client is run all the same
                trial.tell(f"{client.name}: {type(error).__name__}")
            finally:
                group.kill()
        for name, doing in others.items():
            place = trial.folder / name
            place.mkdir()
            try:
                doing(nodes.address, place)
            except Exception as error:
                trial.tell(f"{name}: {type(error).__name__}")
        if any(client.name == "java AbstractCoordinator" for client in chosen):
            outlives_nodes(trial, nodes, Client("AbstractCoordinator", KAFKA_VERSION, own_coordinator, has_topic=False))
        if any(client.name == "java 4 consumer" for client in chosen):
            make_topics(trial, nodes.address, ["killed"])
            consumer = next(client for client in chosen if client.name == "java 4 consumer")
            outlives_nodes(trial, nodes, consumer, CONSUMER_SESSION_S)


def stay_quiet(members: Sequence[Member], shares: list[list[list[str]]], seconds: float) -> None:
    """For so long nobody is told anything."""
    until_s = time.monotonic() + seconds

    def over() -> bool:
        assert [member.shares() for member in members] == shares, "a member was told of a rebalance"
        return time.monotonic() > until_s

    wait_until(over, timeout_s=CHANGE_S, what="the session's time", pause_s=0.1)


def outlives_nodes(trial: Trial, nodes: KafkaNodes, client: Client, session_s: float = SESSION_MS / 1000) -> None:
    """Each node is killed in turn, for longer than a session: nobody is told anything. Then a third member joins."""
    place = trial.folder / f"killed {client.name}"
    place.mkdir()
    group = Group(client, nodes.address, place, "killed")
    try:
        with trial.check(f"{client.name}: each node is killed"):
            members = [group.member() for _ in range(2)]
            group.share(*members)
            shares = [member.shares() for member in members]
            for node in nodes.nodes:
                node.kill()
                stay_quiet(members, shares, session_s + SESSION_MS / 1000)
                node.begin_start()
                nodes.cluster.wait_ready()
        with trial.check(f"{client.name}: a member joins after that"):
            third = group.member()
            wait_until(
                lambda: all(member.held for member in (*members, third)), timeout_s=CHANGE_S, what="shares for three"
            )
            for member in (*members, third):
                member.close()
    finally:
        group.kill()


def proven_on_nodes(trial: Trial) -> None:
    """A member that proves a user of raftmeta by SCRAM, and one with a wrong password."""
    login = f"{LOGIN}.scram.ScramLoginModule"
    known = ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=SCRAM-SHA-256")

    def client(password: str) -> Client:
        proof = f'sasl.jaas.config={login} required username="{USER}" password="{password}";'
        return Client("", KAFKA_VERSION, lambda *place: own_coordinator(*place, *known, proof), has_topic=False)

    with ExitStack() as stack:
        nodes = stack.enter_context(KafkaNodes(trial.folder / "guarded"))
        nodes.nodes[0].call(enable_rights, USER, PASSWORD)
        groups = {}
        for password in (PASSWORD, "wrong"):
            place = trial.folder / password
            place.mkdir()
            groups[password] = Group(client(password), nodes.address, place, "proven")
            stack.callback(groups[password].kill)
        with trial.check("java 3.9 SASL SCRAM-SHA-256: join"):
            member = groups[PASSWORD].member()
            groups[PASSWORD].share(member)
        with trial.check("java 3.9 SASL SCRAM-SHA-256: a wrong password"):
            other = groups["wrong"].member()
            wait_until(lambda: other.has("failed"), timeout_s=CHANGE_S, what=lambda: f"{other.events}", pause_s=0.05)
            groups[PASSWORD].share(member)
            member.close()


def on_kafka(trial: Trial, chosen: Sequence[Client], wanted: Sequence[str], *, write: bool) -> None:
    told: dict[str, list[str]] = {}

    def keep(name: str, taps: Sequence[AnyTap[KafkaConversation]], doing: Callable[[], None]) -> None:
        before = [len(tap.conversations) for tap in taps]
        try:
            doing()
        except Exception as error:
            if not any(check.failure for check in trial.checks if check.name.startswith(name.rpartition(" (")[0])):
                trial.add(name, 0, f"{type(error).__name__}: {error}")
        later = [one for tap, count in zip(taps, before, strict=True) for one in tap.conversations[count:]]
        told[name] = kafka_trace.lines_of(asked for one in later for asked in one.sent)
        faults = [fault for one in later for fault in one.order_faults]
        faults += [line for one in later for line in one.lines if "unreadable" in line]
        trial.add(f"{name}: every frame is read", 0, "; ".join(faults[:5]))

    with served(trial) as (tap, sasl_tap):
        taps = (tap, sasl_tap)
        topics = {client.name: f"topic{number}" for number, client in enumerate(chosen)}
        with trial.check("topics are made"):
            make_topics(trial, tap.address, [*topics.values(), *SASL_TOPICS, "tools"])
        for client in chosen:
            place = trial.folder / topics[client.name]
            place.mkdir()
            group = Group(client, tap.address, place, topics[client.name])
            try:
                keep(f"{client.name} ({client.version})", taps, lambda one=group: live(trial, one))  # type: ignore[misc]
            finally:
                group.kill()
        others: list[tuple[str, Callable[[Path], None]]] = [
            (f"java 3.9 SASL ({KAFKA_VERSION})", lambda place: proven(trial, sasl_tap, place)),
            (f"kafka-consumer-groups ({KAFKA_VERSION})", lambda place: tools(trial, tap.address, place, "tools")),
            (f"connect ({KAFKA_VERSION})", lambda place: share_connectors(trial, tap.address, place)),
        ]
        for number, (name, doing) in enumerate(others):
            if any(word in name for word in wanted):
                place = trial.folder / f"other{number}"
                place.mkdir()
                keep(name, taps, lambda one=doing, there=place: one(there))  # type: ignore[misc]
    (trial.folder / "requests.txt").write_text(kafka_trace.written(told))
    recorded = kafka_trace.read(kafka_trace.GOLDEN.read_text())
    if write:
        recorded = told if len(chosen) == len(clients()) else {**recorded, **told}
        kafka_trace.GOLDEN.write_text(kafka_trace.written(recorded))
    for name, lines in told.items():
        found = kafka_trace.difference(recorded.get(name, []), lines)
        trial.add(f"{name}: requests as recorded", 0, found)
