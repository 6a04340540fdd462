"""Real clients of ZooKeeper on our door, and on a real ZooKeeper: ./build.sh doors; a small part is in the suite.
Clients of Kafka run on a real Kafka: ./build.sh doors --on kafka.

software       which programs, and where they are fetched to
servers        three servers of either kind, killed and started again; etcd_servers those for etcd's clients
patroni_members Patroni with PostgreSQL, over any servers, and a recorder beside
acceptance     unmodified clients: kazoo's suite, Curator, zkCli, Spark, ClickHouse, Patroni, Kafka, etcd
jute           the protocol's frames as text, with ids, zxids and times masked
tap            a proxy that keeps that text
raw            a session that sends exactly what it is told
conversations  programs over it: they ask for everything
traces         the text of those programs, which must be the same from every server (testdata/traces.txt)
test_door      the same on our door, in the suite; test_zookeeper on a real ZooKeeper
kazoo_plugin   servers for kazoo's suite
kafka_broker   a real Kafka 3.9; kafka_workers: two of Connect's workers on it
kafka_frames   Kafka's requests as text; kafka_trace: what was recorded of them (testdata/kafka_requests.txt)
programs       Java sources: recipes of Curator, clients of Kafka, load; members of groups in Python
"""
