"""The metastore of KIP-273 on every store, and KafkaZkClient's uses of it.

places       a real ZooKeeper, a raftmeta cluster, a node in the process: how each is reached, cut off and expired
gate         a proxy that cuts connections
faces        the asyncio metastore behind blocking calls, so that each test is written once
scripted     a carrier that does what a test says, for the rules that need no store
kafka_uses   what Kafka's KafkaZkClient does on ZooKeeper, in Python
"""
