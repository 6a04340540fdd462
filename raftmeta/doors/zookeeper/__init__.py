"""ZooKeeper's client protocol (docs/zookeeper.md)."""
