"""Kafka with rights on its znodes: brokers log in by SASL, `zookeeper.set.acl` is on, everything is below a chroot."""

from __future__ import annotations

from pathlib import Path

from tests.doors.acceptance.kafka import BROKERS, NO_AUTH, Brokers, Watched, buffer_of, judge, watched, works
from tests.doors.acceptance.trial import Trial
from tests.doors.raw import RawSession, change, look
from tests.doors.servers import Servers
from tests.processes.waiting import wait_until

CHROOT = "/kafka"
USER, PASSWORD = "broker", "broker-secret"


def servers_with_users(trial: Trial) -> Servers:
    """Servers of either kind that know one user."""
    if trial.kind == "zookeeper":
        jaas = trial.folder / "server.jaas"
        login = "org.apache.zookeeper.server.auth.DigestLoginModule required"
        jaas.write_text(f'Server {{ {login} user_{USER}="{PASSWORD}"; }};\n')
        provider = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
        return trial.servers(
            settings={"authProvider.1": provider}, properties={"java.security.auth.login.config": jaas}
        )
    users = trial.folder / "users"
    users.write_text(f"{USER}:{PASSWORD}\n")
    users.chmod(0o600)
    return trial.servers(settings={"zookeeper_users_file": str(users)})


def client_login(folder: Path) -> str:
    jaas = folder / "client.jaas"
    login = "org.apache.zookeeper.server.auth.DigestLoginModule required"
    jaas.write_text(f'Client {{ {login} username="{USER}" password="{PASSWORD}"; }};\n')
    return f"-Djava.security.auth.login.config={jaas}"


def run(trial: Trial) -> None:
    with watched(servers_with_users(trial)) as over:
        brokers = Brokers(
            trial.folder,
            over.connect + CHROOT,
            settings={"zookeeper.set.acl": "true"},
            options=(client_login(trial.folder),),
        )
        try:
            with trial.check("brokers start below a chroot"):
                for program in brokers.programs:
                    program.start()
                brokers.client.start()
                brokers.ask(f"brokers {BROKERS}")
            with trial.check("produce and consume"):
                brokers.ask("topic first 6 3")
                brokers.ask("produce first 100")
                brokers.ask("consume first 100")
            for name, line in (("configurations", "configs first"), ("rights", "acls"), ("tokens", "token")):
                with trial.check(name):
                    brokers.ask(line)
            with trial.check("a stranger may look and not touch"):
                stranger_is_refused(over.servers.addresses[0])
            for mode in ("unsecure", "secure"):
                with trial.check(f"all nodes become {mode}"):
                    make_all(mode, trial, over, brokers)
            with trial.check("the controller is killed"):
                old = wait_until(lambda: [over.controller(chroot=CHROOT)], timeout_s=30, what="a controller")[0]
                assert old is not None
                brokers.programs[old].kill()
                wait_until(
                    lambda: over.controller(chroot=CHROOT) not in (None, old), timeout_s=60, what="another controller"
                )
                works(brokers, "after-controller", replicas=2)
        finally:
            brokers.close()
        judge(trial, over)


def make_all(mode: str, trial: Trial, over: Watched, brokers: Brokers) -> None:
    """Kafka's tool of migration gives every node its rights. A stranger then may change one, or not."""
    brokers.tool(
        "kafka.admin.ZkSecurityMigrator",
        *(f"--zookeeper.acl={mode}", f"--zookeeper.connect={over.connect}{CHROOT}"),
    )
    with RawSession(over.servers.addresses[0]) as session:
        path = f"{CHROOT}/config/topics/first"
        value = buffer_of(session.do("getData", look(path)))
        error, _ = session.ask("setData", change(path, value))
        assert error == (NO_AUTH if mode == "secure" else 0), error
        session.close()


def stranger_is_refused(address: str) -> None:
    with RawSession(address) as session:
        session.do("getData", look(f"{CHROOT}/controller"))
        error, _ = session.ask("setData", change(f"{CHROOT}/controller", b"mine"))
        assert error == NO_AUTH, error
        error, _ = session.ask("getChildren2", look(f"{CHROOT}/delegation_token/tokens"))
        assert error == NO_AUTH, error
        session.close()
