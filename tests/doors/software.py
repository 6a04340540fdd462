"""The real servers and clients of the acceptance: which versions, and where they lie.

Jars come from Maven Central through Maven, Python packages from PyPI through pip, ClickHouse and PostgreSQL from
Debian. Go builds etcd and Consul from the Go module proxy. Everything is fetched once into a folder of the user's
cache, named by its version, and nothing into the checkout. A thing that cannot be had raises Missing, which says why.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.processes.program import ProgramFailed, run_program

FETCH_S = 900.0
COMPILE_S = 120.0
BUILD_S = 2400.0
PROGRAMS = Path(__file__).parent / "programs"
ZOOKEEPER_VERSION = "3.9.5"
KAZOO_VERSION = "2.11.0"
# Its wheel has its own test suite, kazoo.tests. pytest and what raftmeta needs are those of this environment.
KAZOO_SUITE = (
    f"kazoo=={KAZOO_VERSION}",
    "pyOpenSSL<26.2",
    "pyjks",
    "gevent>=1.2",
    "eventlet>=0.17.1",
    "objgraph",
    "pure-sasl>=0.5.1",
)
# The interpreter that Debian's user `postgres` may run, too: one below a home may be closed to it.
DEBIAN_PYTHON = Path("/usr/bin/python3")
PATRONI_VERSION = "4.1.5"
PATRONI = (f"patroni[psycopg3,zookeeper,etcd3]=={PATRONI_VERSION}", "psycopg[binary]>=3.2", f"kazoo=={KAZOO_VERSION}")


class Missing(Exception):
    """A program cannot be had on this machine; in words."""


@dataclass(frozen=True, slots=True)
class Jars:
    """Artifacts of Maven Central with all that they need at run time. name: of their folder, with the version."""

    name: str
    artifacts: tuple[str, ...]

    def folder(self) -> Path:
        """Where the jars are; fetched if they are not there yet."""
        return _made(self.name, self._fetch)

    def class_path(self) -> str:
        return f"{self.folder()}/*"

    def _fetch(self, folder: Path) -> None:
        program = _found("mvn", "Debian's package `maven`")
        with tempfile.TemporaryDirectory() as scratch:
            pom = Path(scratch, "pom.xml")
            pom.write_text(_pom(self.artifacts))
            command = [program, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
            command += [f"-DoutputDirectory={folder}", "-DincludeScope=runtime"]
            run_program(command, log=Path(scratch, "maven.log"), timeout_s=FETCH_S)


def _pom(artifacts: tuple[str, ...]) -> str:
    wanted = (artifact.split(":") for artifact in artifacts)
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version></dependency>"
        for group, name, version in wanted
    )
    head = "<modelVersion>4.0.0</modelVersion><groupId>raftmeta</groupId><artifactId>doors</artifactId>"
    namespace = 'xmlns="http://maven.apache.org/POM/4.0.0"'
    return f"<project {namespace}>{head}<version>1</version><dependencies>{dependencies}</dependencies></project>"


# ZooKeeper's pom calls snappy and the metrics optional, but its server does not start without them.
ZOOKEEPER = Jars(
    f"zookeeper-{ZOOKEEPER_VERSION}",
    (
        f"org.apache.zookeeper:zookeeper:{ZOOKEEPER_VERSION}",
        "org.xerial.snappy:snappy-java:1.1.10.5",
        "io.dropwizard.metrics:metrics-core:4.1.12.1",
        "commons-cli:commons-cli:1.5.0",
        "org.slf4j:slf4j-simple:2.0.13",
    ),
)
CURATOR = Jars(
    "curator-5.9.0",
    (
        "org.apache.curator:curator-recipes:5.9.0",
        f"org.apache.zookeeper:zookeeper:{ZOOKEEPER_VERSION}",
        "org.slf4j:slf4j-simple:2.0.13",
    ),
)
KAFKA_VERSION = "3.9.2"
KAFKA = Jars(
    f"kafka-{KAFKA_VERSION}",
    (f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}", f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}"),
)
KAFKA_ASSIGNORS = Jars(
    f"kafka-assignors-{KAFKA_VERSION}",
    (
        f"org.apache.kafka:kafka-clients:{KAFKA_VERSION}",
        f"org.apache.kafka:connect-runtime:{KAFKA_VERSION}",
        "org.slf4j:slf4j-nop:1.7.36",
    ),
)
# Clients of Kafka 4, whose servers have no ZooKeeper mode any more.
KAFKA_CLIENTS_VERSION = "4.4.0"
KAFKA_CLIENTS = Jars(
    f"kafka-clients-{KAFKA_CLIENTS_VERSION}",
    (f"org.apache.kafka:kafka-clients:{KAFKA_CLIENTS_VERSION}", "org.slf4j:slf4j-simple:1.7.36"),
)
KAFKA_TOOLS = Jars(
    f"kafka-tools-{KAFKA_CLIENTS_VERSION}",
    (f"org.apache.kafka:kafka-tools:{KAFKA_CLIENTS_VERSION}", "org.slf4j:slf4j-simple:1.7.36"),
)
# A worker, and a connector for it to run.
CONNECT = Jars(
    f"kafka-connect-file-{KAFKA_VERSION}",
    (
        f"org.apache.kafka:connect-runtime:{KAFKA_VERSION}",
        f"org.apache.kafka:connect-file:{KAFKA_VERSION}",
        "org.slf4j:slf4j-reload4j:1.7.36",
    ),
)
CASSANDRA_VERSION = "5.0.9"
CASSANDRA = Jars(f"cassandra-{CASSANDRA_VERSION}", (f"org.apache.cassandra:cassandra-all:{CASSANDRA_VERSION}",))
CONFLUENT_VERSION, AIOKAFKA_VERSION, KAFKA_PYTHON_VERSION = "2.16.1", "0.14.0", "3.0.12"
FRANZ_GO_VERSION = "1.22.3"
KAFKA_PYTHON_CLIENTS = (
    f"confluent-kafka=={CONFLUENT_VERSION}",
    f"aiokafka=={AIOKAFKA_VERSION}",
    f"kafka-python=={KAFKA_PYTHON_VERSION}",
)
ETCD3GW_VERSION = "2.7.0"
ETCD3GW = (f"etcd3gw=={ETCD3GW_VERSION}",)
# Their own test suites: etcd3gw's stands in its wheel, aetcd's in its archive of sources. Each needs its own pytest.
AETCD_VERSION = "1.0.0"
AETCD = f"aetcd=={AETCD_VERSION}"
ETCD_SUITES = (*ETCD3GW, AETCD, "oslotest", "pytest==9.0.3", "pytest-asyncio==1.3.0", "pytest-mock==3.15.1")


@dataclass(frozen=True, slots=True)
class GoProgram:
    """A program that Go builds from a module. `go install` refuses a module with replace lines, and these have some: so
    a module of our own requires it. gets: versions that the module's own tree uses and its go.mod does not name.
    """

    name: str
    version: str
    module: str
    library: str
    program: str
    excludes: tuple[str, ...] = ()
    gets: tuple[str, ...] = ()

    def path(self) -> Path:
        """Where the program is; built if it is not there yet, which takes minutes."""
        return _made(f"{self.name}-{self.version}", self._build) / self.name

    @property
    def is_built(self) -> bool:
        return (cache() / f"{self.name}-{self.version}" / self.name).exists()

    def _build(self, folder: Path) -> None:
        go = _found("go", "the Go toolchain 1.26")
        with tempfile.TemporaryDirectory() as scratch:
            excludes = "".join(f"exclude {one}\n" for one in self.excludes)
            Path(scratch, "go.mod").write_text(
                f"module built\n\ngo 1.26.0\n\nrequire {self.module} v{self.version}\n\n{excludes}"
            )
            Path(scratch, "tools.go").write_text(f'//go:build tools\n\npackage built\n\nimport _ "{self.library}"\n')
            settings = {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod", "CGO_ENABLED": "0"}
            build = ["build", "-trimpath", "-ldflags", "-s -w", "-o", str(folder / self.name), self.program]
            for number, words in enumerate((["mod", "tidy"], *(["get", one] for one in self.gets), build)):
                log = Path(scratch, f"go{number}.log")
                run_program([go, *words], log=log, folder=Path(scratch), environment=settings, timeout_s=BUILD_S)


ETCD = GoProgram(
    "etcd", "3.7.3", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3/etcdmain", "go.etcd.io/etcd/server/v3"
)
ETCDCTL = GoProgram(
    "etcdctl", "3.7.3", "go.etcd.io/etcd/etcdctl/v3", "go.etcd.io/etcd/etcdctl/v3/ctlv3", "go.etcd.io/etcd/etcdctl/v3"
)
ETCDUTL = GoProgram(
    "etcdutl", "3.7.3", "go.etcd.io/etcd/etcdutl/v3", "go.etcd.io/etcd/etcdutl/v3/etcdutl", "go.etcd.io/etcd/etcdutl/v3"
)
CONSUL = GoProgram(
    "consul",
    "1.22.7",
    "github.com/hashicorp/consul",
    "github.com/hashicorp/consul/command",
    "github.com/hashicorp/consul",
    excludes=("github.com/hashicorp/go-msgpack v1.1.5", "github.com/hashicorp/go-msgpack v1.1.6"),
    gets=("github.com/hashicorp/consul/api@v1.34.1",),
)


def etcd() -> Path:
    return ETCD.path()


def etcdctl() -> Path:
    return ETCDCTL.path()


def etcdutl() -> Path:
    return ETCDUTL.path()


def go_client(program: str) -> Path:
    """A program of tests/doors/programs that uses etcd's own client, built by Go."""
    # tidy drops what a program does not use
    return _go_program(program, ETCD.version, ("go.etcd.io/etcd/client/v3", "go.etcd.io/etcd/server/v3"))


def franz_go_client(program: str) -> Path:
    """The same of a program that uses franz-go."""
    return _go_program(program, FRANZ_GO_VERSION, ("github.com/twmb/franz-go",))


def _go_program(program: str, version: str, modules: Sequence[str]) -> Path:
    source = PROGRAMS / f"{program}.go"
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]

    def build(folder: Path) -> None:
        go = _found("go", "the Go toolchain 1.26")
        with tempfile.TemporaryDirectory() as scratch:
            needed = "".join(f"require {module} v{version}\n" for module in modules)
            Path(scratch, "go.mod").write_text(f"module built\n\ngo 1.26.0\n\n{needed}")
            Path(scratch, "main.go").write_bytes(source.read_bytes())
            settings = {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod", "CGO_ENABLED": "0"}
            words = ["build", "-trimpath", "-ldflags", "-s -w", "-o", str(folder / program), "."]
            for number, command in enumerate((["mod", "tidy"], words)):
                log = Path(scratch, f"go{number}.log")
                run_program([go, *command], log=log, folder=Path(scratch), environment=settings, timeout_s=BUILD_S)

    return _made(f"{program}-{version}-{digest}", build) / program


def etcd3gw() -> Path:
    """A folder of packages with etcd3gw, for this interpreter."""

    def fetch(folder: Path) -> None:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), *ETCD3GW]
        with tempfile.TemporaryDirectory() as scratch:
            run_program(command, log=Path(scratch, "pip.log"), timeout_s=FETCH_S)

    return _made(f"etcd3gw-{ETCD3GW_VERSION}-python{sys.version_info[0]}.{sys.version_info[1]}", fetch)


def etcd_suites() -> tuple[Path, Path]:
    """A folder of packages with etcd3gw and aetcd, to stand first on the path; and the folder of aetcd's own tests."""

    def fetch(folder: Path) -> None:
        pip = [sys.executable, "-m", "pip"]
        with tempfile.TemporaryDirectory() as scratch:
            install = [*pip, "install", "--quiet", "--target", str(folder / "packages"), *ETCD_SUITES]
            run_program(install, log=Path(scratch, "pip.log"), timeout_s=FETCH_S)
            sources = [*pip, "download", "--quiet", "--no-deps", "--no-binary", "aetcd", "--dest", scratch, AETCD]
            run_program(sources, log=Path(scratch, "sources.log"), timeout_s=FETCH_S)
            with tarfile.open(Path(scratch, f"aetcd-{AETCD_VERSION}.tar.gz")) as archive:
                archive.extractall(folder, filter="data")

    versions = f"{ETCD3GW_VERSION}-{AETCD_VERSION}-python{sys.version_info[0]}.{sys.version_info[1]}"
    folder = _made(f"etcd-suites-{versions}", fetch)
    return folder / "packages", folder / f"aetcd-{AETCD_VERSION}" / "tests" / "integration"


def consul() -> Path:
    """Its licence is for tests only: nothing of it is shipped."""
    return CONSUL.path()


def cache() -> Path:
    """The folder of everything that is fetched, by the rules of XDG."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "raftmeta", "doors")


def node() -> str:
    return _found("node", "Node.js 20")


def java() -> str:
    return _found("java", "Debian's package `openjdk-17-jdk-headless`")


def compiled(program: str, jars: Jars) -> str:
    """The class path of a program of tests/doors/programs with the jars that it uses."""
    source = PROGRAMS / f"{program}.java"
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]

    def compile_into(folder: Path) -> None:
        compiler = _found("javac", "Debian's package `openjdk-17-jdk-headless`")
        command = [compiler, "-nowarn", "-proc:none", "-cp", jars.class_path(), "-d", str(folder), str(source)]
        with tempfile.TemporaryDirectory() as scratch:
            run_program(command, log=Path(scratch, "javac.log"), timeout_s=COMPILE_S)

    return f"{_made(f'{program}-{digest}-{jars.name}', compile_into)}:{jars.class_path()}"


def kazoo_suite() -> Path:
    """A folder of packages with kazoo, its test suite, and what the suite needs: to stand first on the path."""

    def fetch(folder: Path) -> None:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), *KAZOO_SUITE]
        with tempfile.TemporaryDirectory() as scratch:
            run_program(command, log=Path(scratch, "pip.log"), timeout_s=FETCH_S)

    return _made(f"kazoo-suite-{KAZOO_VERSION}-python{sys.version_info[0]}.{sys.version_info[1]}", fetch)


def kafka_python_clients() -> Path:
    """A folder of packages with three clients of Kafka, for this interpreter."""

    def fetch(folder: Path) -> None:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), *KAFKA_PYTHON_CLIENTS]
        with tempfile.TemporaryDirectory() as scratch:
            run_program(command, log=Path(scratch, "pip.log"), timeout_s=FETCH_S)

    versions = "-".join((CONFLUENT_VERSION, AIOKAFKA_VERSION, KAFKA_PYTHON_VERSION))
    return _made(f"kafka-python-clients-{versions}-python{sys.version_info[0]}.{sys.version_info[1]}", fetch)


def patroni() -> Path:
    """A folder of packages with Patroni, for Debian's Python."""
    if not DEBIAN_PYTHON.exists():
        raise Missing(f"there is no {DEBIAN_PYTHON}: it comes with Debian's package `python3`")

    def fetch(folder: Path) -> None:
        command = [sys.executable, "-m", "pip", "--python", DEBIAN_PYTHON, "install", "--quiet"]
        with tempfile.TemporaryDirectory() as scratch:
            run_program([*command, "--target", folder, *PATRONI], log=Path(scratch, "pip.log"), timeout_s=FETCH_S)

    return _made(f"patroni-stores-{PATRONI_VERSION}-{os.path.realpath(DEBIAN_PYTHON).rpartition('/')[2]}", fetch)


def postgresql() -> Path:
    """The folder of the newest PostgreSQL's programs: Debian does not put them on the path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda one: float(one.parts[4]))
    if not found:
        raise Missing("there is no PostgreSQL: it comes with Debian's package `postgresql`")
    return found[-1].parent


def clickhouse() -> tuple[str, str]:
    """The server and the client."""
    why = "Debian's packages `clickhouse-server` and `clickhouse-client`"
    return _found("clickhouse-server", why), _found("clickhouse-client", why)


def spark_jars() -> Path:
    """Those of the pyspark that constraints.txt names."""
    import importlib.util

    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise Missing("pyspark is not installed: ./build.sh installs it")
    return Path(spec.origin).parent / "jars"


def _found(program: str, package: str) -> str:
    found = shutil.which(program)
    if found is None:
        raise Missing(f"there is no {program}: it comes with {package}, which ./build.sh doors installs")
    return found


def _made(name: str, make: Callable[[Path], None]) -> Path:
    """The folder of that name in the cache, whole: it is made beside its place and renamed into it."""
    folder = cache() / name
    if folder.exists():
        return folder
    cache().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache(), prefix="making-") as scratch:
        making = Path(scratch, name)
        making.mkdir()
        try:
            make(making)
        except (ProgramFailed, OSError) as error:
            raise Missing(f"{name} could not be had: {error}") from error
        try:
            making.rename(folder)
        except OSError:
            assert folder.exists(), folder  # another process made it at the same time
    return folder
