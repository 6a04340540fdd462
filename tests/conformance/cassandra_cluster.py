"""Three real Cassandra nodes on this machine, and the commands that kill, freeze and heal them (real_servers)."""

from __future__ import annotations

import sys
from pathlib import Path

from cassandra import OperationTimedOut
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, NoHostAvailable
from cassandra.policies import RoundRobinPolicy

from tests.conformance.real_servers import RealServers
from tests.doors.software import CASSANDRA, java

ASK_S = 2.0
_EXPORTS = (
    *(
        f"java.base/{name}"
        for name in ("jdk.internal.misc", "jdk.internal.ref", "java.lang.ref", "jdk.internal.reflect")
    ),
    *("java.base/jdk.internal.vm.annotation", "java.management.rmi/com.sun.jmx.remote.internal.rmi"),
    *("java.rmi/sun.rmi.registry", "java.rmi/sun.rmi.server", "java.rmi/sun.rmi.transport.tcp"),
    *("java.sql/java.sql", "jdk.unsupported/sun.misc", "jdk.attach/sun.tools.attach"),
)
_OPENS = (
    *(f"java.base/java.{name}" for name in ("lang", "lang.module", "lang.reflect", "io", "net", "nio", "util")),
    *("java.base/java.util.concurrent", "java.base/java.util.concurrent.atomic", "java.base/sun.nio.ch"),
    *(f"java.base/jdk.internal.{name}" for name in ("loader", "ref", "reflect", "math", "module", "util.jar")),
    "jdk.management/com.sun.management.internal",
)
_SETTINGS = """cluster_name: raftmeta-test
num_tokens: 1
initial_token: {token}
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: SimpleSnitch
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: "127.0.0.1:{seed}"
listen_address: 127.0.0.1
rpc_address: 127.0.0.1
native_transport_port: {native}
storage_port: {storage}
data_file_directories: [{data}/data]
commitlog_directory: {data}/commitlog
saved_caches_directory: {data}/caches
hints_directory: {data}/hints
cdc_raw_directory: {data}/cdc
commitlog_sync: batch
commitlog_segment_size: 8MiB
commitlog_total_space: 64MiB
memtable_heap_space: 32MiB
memtable_offheap_space: 32MiB
concurrent_reads: 4
concurrent_writes: 4
auto_bootstrap: false
cas_contention_timeout: 2000ms
paxos_variant: v2
"""


class CassandraCluster(RealServers):
    """Cassandra 5.0; a port for clients, one for nodes, one for JMX. No node leads: the first that serves is hurt."""

    module = __spec__.name if __spec__ is not None else "tests.conformance.cassandra_cluster"
    ports_each = 3

    def command(self, number: int, data: Path) -> list[str]:
        native, storage, jmx = self.ports[number]
        jars = CASSANDRA.folder()
        place = self.members.index(number)
        settings = {
            "native": native,
            "storage": storage,
            "data": data,
            "seed": self.ports[self.members[0]][1],
            "token": -(2**63) + 1 + place * 2**64 // len(self.members),
        }
        (data / "cassandra.yaml").write_text(_SETTINGS.format(**settings))
        (data / "logback.xml").write_text("<configuration></configuration>")
        properties = {
            "jdk.attach.allowAttachSelf": "true",
            "io.netty.tryReflectionSetAccessible": "true",
            "logback.configurationFile": data / "logback.xml",
            "cassandra.config": f"file://{data}/cassandra.yaml",
            "cassandra.storagedir": data,
            "cassandra-foreground": "yes",
            "cassandra.ring_delay_ms": 2000,
            "cassandra.skip_wait_for_gossip_to_settle": 0,
            "cassandra.jmx.local.port": jmx,
            "java.rmi.server.hostname": "127.0.0.1",
            "cassandra.jmx.remote.login.config": "",
        }
        (agent,) = jars.glob("jamm-*.jar")
        return [
            *(java(), "-ea", "-Xms512m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss512k"),
            *(word for one in _EXPORTS for word in ("--add-exports", f"{one}=ALL-UNNAMED")),
            *(word for one in _OPENS for word in ("--add-opens", f"{one}=ALL-UNNAMED")),
            f"-javaagent:{agent}",
            *(f"-D{name}={value}" for name, value in properties.items()),
            *("-cp", f"{jars}/*", "org.apache.cassandra.service.CassandraDaemon"),
        ]

    def start(self) -> None:
        """One after the other: nodes that begin together do not find each other."""
        for number in self.members:
            if self._pid(number) is None:
                self._start(number)
                self._wait_serving((number,))

    def is_serving(self, number: int) -> bool:
        """It answers clients, and knows all nodes that run."""
        profile = ExecutionProfile(load_balancing_policy=RoundRobinPolicy(), request_timeout=ASK_S)
        cluster = Cluster(
            [("127.0.0.1", self.ports[number][0])],
            execution_profiles={EXEC_PROFILE_DEFAULT: profile},
            protocol_version=5,
            connect_timeout=ASK_S,
            control_connection_timeout=ASK_S,
            schema_metadata_enabled=False,
            token_metadata_enabled=False,
        )
        try:
            peers = cluster.connect().execute("SELECT native_port FROM system.peers_v2")
            return len(list(peers)) + 1 >= sum(self._pid(member) is not None for member in self.members)
        except (NoHostAvailable, OperationTimedOut):
            return False
        finally:
            cluster.shutdown()

    def is_leading(self, number: int) -> bool:
        return self._pid(number) is not None and self.is_serving(number)


if __name__ == "__main__":
    CassandraCluster(Path(sys.argv[1])).main(sys.argv[2])
