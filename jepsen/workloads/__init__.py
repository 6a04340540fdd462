"""What clients ask, by name. jepsen/workloads/base.py says what a workload is."""

from __future__ import annotations

from jepsen.workloads.base import Workload
from jepsen.workloads.counters import Counter, Session
from jepsen.workloads.door_locks import ZookeeperLock
from jepsen.workloads.door_multi import ZookeeperMulti
from jepsen.workloads.door_registers import ZookeeperRegister, ZookeeperWatch
from jepsen.workloads.etcd import EtcdLock, EtcdRegister, EtcdTransactions, EtcdWatch
from jepsen.workloads.holds import Election, Group, Lease
from jepsen.workloads.registers import Register
from jepsen.workloads.sets_and_lists import AppendList, Set
from jepsen.workloads.transactions import Transactions
from jepsen.workloads.watches import Watch
from jepsen.workloads.workers import Churn, Workers

WORKLOADS: dict[str, type[Workload]] = {
    workload.name: workload
    for workload in (
        *(Register, Transactions, Set, AppendList, Counter, Watch, Lease, Group, Election, Session, Workers),
        *(ZookeeperRegister, ZookeeperLock, ZookeeperMulti, ZookeeperWatch),
        *(EtcdRegister, EtcdLock, EtcdTransactions, EtcdWatch),
    )
}
# By every name that a slot may have: those of a run, and the one of `python -m jepsen churn`.
KINDS: dict[str, type[Workload]] = {**WORKLOADS, Churn.name: Churn}
