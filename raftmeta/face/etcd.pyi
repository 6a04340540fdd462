"""The etcd door of a node, as its settings want it. Native code opens it."""

from raftmeta.face.door import OpenDoor

class OpenEtcd(OpenDoor):
    """A node's handle of its etcd door."""
