"""What clients ask, by name. jepsen/workloads/base.py says what a workload is."""

from __future__ import annotations

from jepsen.workloads.base import Workload
from jepsen.workloads.counters import Counter, Session
from jepsen.workloads.door_locks import ZookeeperLock
from jepsen.workloads.door_multi import ZookeeperMulti
from jepsen.workloads.door_registers import ZookeeperRegister, ZookeeperWatch
from jepsen.workloads.etcd import EtcdLock, EtcdRegister, EtcdTransactions, EtcdWatch
from jepsen.workloads.holds import Election, Group, Lease
from jepsen.workloads.kafka_workers import KafkaChurn
from jepsen.workloads.registers import Register
from jepsen.workloads.sets_and_lists import AppendList, Set
from jepsen.workloads.transactions import Transactions
from jepsen.workloads.watches import Watch
from jepsen.workloads.workers import LIES, Churn, Workers, planted

WORKLOADS: dict[str, type[Workload]] = {
    workload.name: workload
    for workload in (
        *(Register, Transactions, Set, AppendList, Counter, Watch, Lease, Group, Election, Session, Workers),
        *(ZookeeperRegister, ZookeeperLock, ZookeeperMulti, ZookeeperWatch),
        *(EtcdRegister, EtcdLock, EtcdTransactions, EtcdWatch),
    )
}
# Of `python -m jepsen churn`, with every mistake that can be planted there.
_WITHOUT_MISTAKES: tuple[type[Churn], ...] = (Churn, KafkaChurn)
CHURNS: dict[str, type[Churn]] = {
    kind.name: kind for one in _WITHOUT_MISTAKES for kind in [one, *(planted(one, lie) for lie in LIES)]
}
# By every name that a slot may have.
KINDS: dict[str, type[Workload]] = {**WORKLOADS, **CHURNS}
