"""Three Kafka 3.9 brokers in ZooKeeper mode through all that can happen to them (KIP-273's acceptance).

Each broker reaches each server through a tap, which counts requests, looks at the order of replies, and can cut all
connections. The client is Kafka's own, asked by lines: tests/doors/programs/KafkaClient.java.
"""

from __future__ import annotations

import contextlib
import json
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.doors.acceptance.trial import Trial
from tests.doors.raw import RawSession, look, text
from tests.doors.servers import JAVA, Servers
from tests.doors.software import KAFKA, compiled, java
from tests.doors.tap import Tap
from tests.processes.program import Program
from tests.processes.waiting import free_ports, wait_until

BROKERS = 3
SESSION_MS = 6000
START_S = 120.0
STOP_S = 90.0
TAKEOVER_S = 60.0
TOOL_S = 120.0
STAT_BYTES = 68
NO_NODE, NO_AUTH = -101, -102
PASSWORD = "admin"
LOGGING = """\
log4j.rootLogger={level}, a
log4j.appender.a=org.apache.log4j.ConsoleAppender
log4j.appender.a.target=System.err
log4j.appender.a.layout=org.apache.log4j.PatternLayout
log4j.appender.a.layout.ConversionPattern=%d{{HH:mm:ss,SSS}} %p %c{{1}} %m%n
"""


class Brokers:
    """Three brokers of one cluster. options: more words for Java. settings: more lines of server.properties.

    heap: of each broker.
    """

    def __init__(
        self,
        folder: Path,
        connect: str,
        *,
        settings: Mapping[str, str] | None = None,
        options: tuple[str, ...] = (),
        heap: str = "256m",
    ) -> None:
        self.folder = folder
        self._login = options
        self._options = (f"-Xmx{heap}", *JAVA, *options)
        self.ports = free_ports(2 * BROKERS)
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in self.ports[:BROKERS])
        self.sasl_bootstrap = ",".join(f"127.0.0.1:{port}" for port in self.ports[BROKERS:])
        for name, level in (("broker", "INFO"), ("tool", "WARN")):
            (folder / f"{name}.log4j").write_text(LOGGING.format(level=level))
        self.programs = [self._broker(number, connect, settings or {}) for number in range(BROKERS)]
        self.client = self._tool(
            "KafkaClient", self.bootstrap, self.sasl_bootstrap, log="client.log", talks=True, heap="256m"
        )

    def _broker(self, number: int, connect: str, settings: Mapping[str, str]) -> Program:
        plain, sasl = self.ports[number], self.ports[BROKERS + number]
        login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        lines = {
            "broker.id": number,
            "zookeeper.connect": connect,
            "zookeeper.session.timeout.ms": SESSION_MS,
            "zookeeper.connection.timeout.ms": 30_000,
            "listeners": f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{sasl}",
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
                f'{login} username="admin" password="{PASSWORD}" user_admin="{PASSWORD}";'
            ),
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
            "super.users": "User:admin;User:ANONYMOUS",
            "delegation.token.secret.key": "raftmeta",
            "log.dirs": self.folder / f"logs{number}",
            "offsets.topic.num.partitions": 4,
            "offsets.topic.replication.factor": BROKERS,
            "transaction.state.log.num.partitions": 2,
            "transaction.state.log.replication.factor": BROKERS,
            "transaction.state.log.min.isr": 1,
            "num.network.threads": 2,
            "num.io.threads": 3,
            "group.initial.rebalance.delay.ms": 0,
            "controlled.shutdown.max.retries": 1,
            **settings,
        }
        properties = self.folder / f"broker{number}.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        command = [java(), *self._options, f"-Dlog4j.configuration=file:{self.folder / 'broker.log4j'}"]
        command += ["-cp", KAFKA.class_path(), "kafka.Kafka", str(properties)]
        return Program(command, log=self.folder / f"broker{number}.log")

    def _tool(self, main: str, *arguments: str, log: str, talks: bool, heap: str = "128m") -> Program:
        command = [java(), f"-Xmx{heap}", *JAVA, *self._login]
        command.append(f"-Dlog4j.configuration=file:{self.folder / 'tool.log4j'}")
        command += ["-cp", compiled("KafkaClient", KAFKA), main, *arguments]
        return Program(command, log=self.folder / log, talks=talks)

    def ask(self, line: str) -> str:
        """Kafka's client does what the line says."""
        verdict, _, answer = self.client.ask(line).partition(" ")
        assert verdict == "ok", f"{line}: {answer}"
        return answer

    def tool(self, main: str, *arguments: str) -> str:
        """The output of one of Kafka's command line tools, which must succeed."""
        log = f"{main.rpartition('.')[2]}.log"
        with self._tool(main, *arguments, log=log, talks=False) as tool:
            code = tool.wait(timeout_s=TOOL_S)
        assert code == 0, f"{main} ended with {code}\n{tool.log_tail()}"
        return (self.folder / log).read_text()

    def controller(self) -> int:
        return int(self.ask("controller"))

    def close(self) -> None:
        for program in (self.client, *self.programs):
            program.kill()


class Watched:
    """Servers behind taps. epochs: of the controller, as they were seen. registered: epochs of each broker, too.

    unwell: the numbers of servers that are not asked.
    """

    def __init__(self, servers: Servers, taps: list[Tap]) -> None:
        self.servers = servers
        self.taps = taps
        self.epochs: list[int] = []
        self.registered: dict[int, list[int]] = {broker: [] for broker in range(BROKERS)}
        self.unwell: set[int] = set()

    @property
    def connect(self) -> str:
        return ",".join(tap.address for tap in self.taps)

    @contextmanager
    def session(self) -> Iterator[RawSession]:
        """At the first server that gives one. Raises NoServer without one, and when the server goes."""
        for number, address in enumerate(self.servers.addresses):
            if number in self.unwell:
                continue
            try:
                session = RawSession(address)
            except (OSError, EOFError, struct.error):
                continue
            try:
                with session:
                    session.do("sync", text("/"))
                    yield session
                    session.close()
            except (OSError, EOFError, struct.error) as error:
                raise NoServer(f"{address} went: {error}") from error
            return
        raise NoServer(f"none of {self.servers.addresses}")

    def controller(self, *, chroot: str = "") -> int | None:
        """The broker that is the controller by the servers' word; None without one. Notes its epoch."""
        with contextlib.suppress(NoServer), self.session() as session:
            _, epoch = session.ask("getData", look(f"{chroot}/controller_epoch"))
            error, found = session.ask("getData", look(f"{chroot}/controller"))
            if epoch:
                self.epochs.append(int(buffer_of(epoch)))
            return None if error else int(json.loads(buffer_of(found))["brokerid"])
        return None

    def registration(self, broker: int) -> int | None:
        """The epoch of a broker, which is the zxid that made its node; None while it is not registered. Notes it."""
        with self.session() as session:
            error, stat = session.ask("exists", look(f"/brokers/ids/{broker}"))
        if error:
            return None
        (epoch,) = struct.unpack_from(">q", stat)
        self.registered[broker].append(epoch)
        return int(epoch)

    def is_gone(self, broker: int) -> bool:
        """Whether the servers say that it is not registered."""
        try:
            return self.registration(broker) is None
        except NoServer:
            return False

    def tree(self, number: int) -> dict[str, tuple[bytes, bytes]]:
        """Data and stat of every node, as this server tells them."""
        found: dict[str, tuple[bytes, bytes]] = {}
        with RawSession(self.servers.addresses[number]) as session:
            session.do("sync", text("/"))
            paths = ["/"]
            while paths:
                path = paths.pop()
                error, body = session.ask("getData", look(path))
                if error in (NO_AUTH, NO_NODE):  # of others, or gone since
                    continue
                assert error == 0, f"{path}: {error}"
                found[path] = buffer_of(body), body[-STAT_BYTES:]
                children = strings_of(session.do("getChildren", look(path)))
                paths += [f"{path.rstrip('/')}/{child}" for child in children]
            session.close()
        return {path: told for path, told in found.items() if not path.startswith("/zookeeper")}

    def requests(self) -> Counter[str]:
        lines = (line for tap in self.taps for conversation in tap.trace() for line in conversation)
        return Counter(line.split()[1] for line in lines if line.startswith(">"))

    def faults(self) -> list[str]:
        found = [fault for tap in self.taps for fault in tap.order_faults()]
        lines = (line for tap in self.taps for conversation in tap.trace() for line in conversation)
        return found + [line for line in lines if "unreadable" in line]


class NoServer(Exception):
    """No server has answered."""


def buffer_of(body: bytes) -> bytes:
    (length,) = struct.unpack_from(">i", body)
    return body[4 : 4 + length]


def strings_of(body: bytes) -> list[str]:
    """The vector of strings at the beginning of a body."""
    (count,) = struct.unpack_from(">i", body)
    found, at = [], 4
    for _ in range(count):
        found.append(buffer_of(body[at:]).decode())
        at += 4 + len(buffer_of(body[at:]))
    return found


@contextmanager
def watched(servers: Servers) -> Iterator[Watched]:
    with servers, ExitStack() as stack:
        yield Watched(servers, [stack.enter_context(Tap(address)) for address in servers.addresses])


def run(trial: Trial) -> None:
    with watched(trial.servers()) as over:
        brokers = Brokers(trial.folder, over.connect)
        try:
            phases(trial, over, brokers)
        finally:
            brokers.close()
        judge(trial, over)


def judge(trial: Trial, over: Watched) -> None:
    """What must hold of the whole run."""
    trial.tell("requests: " + ", ".join(f"{name} {count}" for name, count in over.requests().most_common()))
    with trial.check("replies in order, zxids never fall"):
        assert not over.faults(), over.faults()[:5]
    with trial.check("controller epochs only grow"):
        assert over.epochs and over.epochs == sorted(over.epochs), over.epochs
    with trial.check("epochs of brokers only grow"):
        for epochs in over.registered.values():
            assert epochs == sorted(epochs), epochs
    with trial.check("all servers have the same tree"):
        trees: list[dict[str, tuple[bytes, bytes]]] = []
        # The last sessions of the brokers end meanwhile.
        wait_until(lambda: is_agreed(over, trees), timeout_s=TAKEOVER_S, what=lambda: differences(trees), pause_s=1.0)
        trial.tell(f"{len(trees[0])} nodes")


def is_agreed(over: Watched, trees: list[dict[str, tuple[bytes, bytes]]]) -> bool:
    """Whether all servers tell the same, without ephemerals. trees: what they tell."""
    trees[:] = [over.tree(number) for number in range(len(over.servers.addresses))]
    return all(tree == trees[0] for tree in trees) and not any(is_ephemeral(stat) for _, stat in trees[0].values())


def is_ephemeral(stat: bytes) -> bool:
    return struct.unpack_from(">q", stat, 44)[0] != 0


def differences(trees: list[dict[str, tuple[bytes, bytes]]]) -> str:
    """Where they differ, and whose session has not ended."""
    paths = sorted(set().union(*trees))
    differing = [path for path in paths if len({tree.get(path) for tree in trees}) > 1]
    owned = [path for path, (_, stat) in trees[0].items() if is_ephemeral(stat)]
    return f"one tree; of {len(paths)} nodes differ {differing[:5]}, ephemeral are {owned[:5]}"


def phases(trial: Trial, over: Watched, brokers: Brokers) -> None:
    """One after the other; every one ends with what a user would see."""
    with trial.check("the first broker starts"):
        brokers.programs[0].start()
        brokers.client.start()
        brokers.ask("brokers 1")
    with trial.check("more brokers"):
        for program in brokers.programs[1:]:
            program.start()
        brokers.ask(f"brokers {BROKERS}")
    asked = (
        ("a topic", "topic first 6 3"),
        ("50 topics", "topics many- 50 2 3"),
        ("produce", "produce first 1000"),
        ("consume", "consume first 1000"),
        ("a topic for transactions", "topic transactions 2 3"),
        ("transactions", "transaction transactions"),
        ("configurations", "configs first"),
        ("rights", "acls"),
        ("delegation tokens", "token"),
        ("more partitions", "grow first 8"),
        ("reassignment and election", "reassign first 2 0 1"),
        ("topics are deleted", "delete many-"),
    )
    for name, line in asked:
        with trial.check(name):
            brokers.ask(line)
    ends_and_restarts(trial, over, brokers)
    lost_sessions(trial, over, brokers)
    with trial.check("the command line's list of topics"):
        told = brokers.tool("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", brokers.bootstrap, "--list")
        assert "first" in told.split(), told
    all_stop(trial, over, brokers)
    tools_of_zookeeper(trial, over, brokers)


def all_stop(trial: Trial, over: Watched, brokers: Brokers) -> None:
    with trial.check("all brokers stop"):
        for program in brokers.programs:
            program.end(timeout_s=STOP_S)
        wait_until(lambda: over.controller() is None, timeout_s=TAKEOVER_S, what="no controller")


def works(brokers: Brokers, topic: str, *, replicas: int) -> None:
    """The cluster does what it is for."""
    brokers.ask(f"led {replicas}")
    brokers.ask(f"topic {topic} 2 {replicas}")
    brokers.ask(f"produce {topic} 100")
    brokers.ask(f"consume {topic} 100")


def another_controller(over: Watched, old: int) -> int:
    found = wait_until(
        lambda: [now] if (now := over.controller()) not in (None, old) else [],
        timeout_s=TAKEOVER_S,
        what=f"a controller other than {old}",
        pause_s=0.1,
    )
    return int(found[0])


def ends_and_restarts(trial: Trial, over: Watched, brokers: Brokers) -> None:
    controller = over.controller()
    assert controller is not None
    follower = next(number for number in range(BROKERS) if number != controller)
    with trial.check("a broker stops cleanly"):
        brokers.programs[follower].end(timeout_s=STOP_S)
        brokers.ask(f"brokers {BROKERS - 1}")
    with trial.check("and starts again"):
        brokers.programs[follower].start()
        brokers.ask(f"brokers {BROKERS}")
        works(brokers, "after-stop", replicas=3)
    with trial.check("the controller is killed"):
        brokers.programs[controller].kill()
        another_controller(over, controller)
        works(brokers, "after-controller", replicas=2)
    with trial.check("and starts again"):
        brokers.programs[controller].start()
        brokers.ask(f"brokers {BROKERS}")
        brokers.ask("led 3")
    with trial.check("another broker is killed"):
        now = over.controller()
        victim = next(number for number in range(BROKERS) if number != now)
        brokers.programs[victim].kill()
        brokers.ask(f"brokers {BROKERS - 1}")
        works(brokers, "after-follower", replicas=2)
    with trial.check("and starts again, too"):
        brokers.programs[victim].start()
        brokers.ask(f"brokers {BROKERS}")
        brokers.ask("led 3")


def lost_sessions(trial: Trial, over: Watched, brokers: Brokers) -> None:
    """Connections that break are resumed; a session that ends is followed by a new one."""
    with trial.check("all connections are lost"):
        before = [len(tap.conversations) for tap in over.taps]
        for tap in over.taps:
            tap.cut()
        for tap in over.taps:
            tap.open()

        def resumed() -> int:
            later = (c for tap, count in zip(over.taps, before, strict=True) for c in tap.conversations[count:])
            opened = (conversation.lines[:2] for conversation in later)
            return sum(len(two) > 1 and "resume" in two[0] and "a session" in two[1] for two in opened)

        wait_until(lambda: resumed() >= 2 * BROKERS, timeout_s=START_S, what=lambda: f"{resumed()} resumed sessions")
        works(brokers, "after-cut", replicas=3)
    with trial.check("the controller's session ends"):
        old = over.controller()
        assert old is not None
        before = over.registration(old)
        brokers.programs[old].pause()
        try:
            another_controller(over, old)
        finally:
            brokers.programs[old].resume()
        # Until it has noticed that its session is gone it answers as the controller that it was.
        wait_until(
            lambda: over.registration(old) not in (None, before),
            timeout_s=TAKEOVER_S,
            what="the broker to register again",
            pause_s=0.1,
        )
        brokers.ask(f"brokers {BROKERS}")
        works(brokers, "after-expiry", replicas=3)


def tools_of_zookeeper(trial: Trial, over: Watched, brokers: Brokers) -> None:
    """They talk to ZooKeeper without brokers."""
    with trial.check("credentials through ZooKeeper"):
        told = brokers.tool(
            "kafka.admin.ConfigCommand",
            *("--zookeeper", over.connect, "--alter", "--entity-type", "users", "--entity-name", "carol"),
            *("--add-config", "SCRAM-SHA-256=[password=secret]"),
        )
        assert "Completed updating config" in told, told
    with trial.check("Kafka's shell of ZooKeeper"):
        told = brokers.tool(
            "org.apache.zookeeper.ZooKeeperMainWithTlsSupportForKafka",
            *("-server", over.connect, "get", "/controller_epoch"),
        )
        assert str(over.epochs[-1]) in told.split(), told
