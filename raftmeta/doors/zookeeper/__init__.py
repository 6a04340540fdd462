"""ZooKeeper's client protocol (docs/zookeeper.md, docs/zookeeper-requests.md)."""
