"""The ZooKeeper door: its protocol against a model of jute in Python, and against bytes of a real ZooKeeper."""
