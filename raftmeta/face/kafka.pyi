"""The Kafka door of a node, as its settings want it. Native code opens it."""

from raftmeta.face.door import OpenDoor

class OpenKafka(OpenDoor):
    """A node's handle of its Kafka door."""
