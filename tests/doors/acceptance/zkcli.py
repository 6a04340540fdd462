"""A session of ZooKeeper's own command line, compared with what a real ZooKeeper answered (testdata/zkcli.txt).

The transcript is written anew by `python -m tests.doors --on zookeeper --write zkcli`, and read before it is committed.
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path

from tests.doors.acceptance.trial import Trial
from tests.doors.software import ZOOKEEPER, java
from tests.processes.program import run_program

RUN_S = 120.0
TRANSCRIPT = Path(__file__).parents[1] / "testdata" / "zkcli.txt"
COMMANDS = """\
ls /
create /cli data
create -e /cli/ephemeral e
create -s /cli/sequence- s
create -c /cli/container c
create -t 600000 /cli/ttl t
create -e -s /cli/both- b
stat /cli/container
stat /cli/ttl
create /cli data
create /no/parent x
ls /cli
ls -s /cli
ls -R /cli
get /cli
get -s /cli
get -w /cli
ls -w /cli
set /cli changed
set -v 0 /cli refused
set -v 1 /cli again
stat /cli
stat /no
getAllChildrenNumber /cli
getEphemerals /cli
getAcl /cli
addauth digest user:secret
whoami
setAcl /cli auth::cdrwa
getAcl /cli
addWatch -m PERSISTENT /cli
create /cli/watched w
removewatches /cli
sync /cli
config
listquota /cli
setquota -n 100 /cli
listquota /cli
setquota -b 50 /cli
setquota -N 2 /cli
listquota /cli
delquota -n /cli
listquota /cli
ls -R /zookeeper
setquota -n 1 /cli/watched
delquota /cli
listquota /cli
reconfig -remove 1
delete -v 7 /cli/watched
setAcl -v 0 /cli world:anyone:r
setAcl -R /cli world:anyone:cdrwa
getAcl -s /cli/watched
create /cli/closed x world:anyone:r
set /cli/closed y
create /cli/ephemeral/below x
create /cli//odd x
version
delete /cli
delete /cli/watched
deleteall /cli
ls /
quit
"""
NOISE = re.compile(r"^(Connecting to|Welcome to|JLine support|\[zk: |WATCHER::|WatchedEvent|$)|server\.\d+=|^version=")
MASKS = (
    (re.compile(r"0x(?!0$)[0-9a-f]+", re.MULTILINE), "<id>"),
    (re.compile(r"\b[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ [\d:]{8} \w+ \d{4}"), "<time>"),
    (re.compile(r"zxid: \d+"), "zxid: <id>"),
    (re.compile(r"127\.0\.0\.1:\d+"), "<server>"),
)


def run(trial: Trial, *, write: bool = False) -> None:
    given, log = trial.folder / "zkcli.in", trial.folder / "zkcli.log"
    given.write_text(COMMANDS)
    command = [java(), "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"]
    command += ["-cp", ZOOKEEPER.class_path(), "org.apache.zookeeper.ZooKeeperMain", "-waitforconnection", "-server"]
    with trial.servers() as servers, trial.check("the session runs to its end"):
        run_program([*command, servers.addresses[0]], log=log, timeout_s=RUN_S, reads=given)
    told = transcript(log.read_text())
    if write:
        TRANSCRIPT.write_text(told)
    with trial.check("the transcript is that of ZooKeeper"):
        expected = TRANSCRIPT.read_text()
        difference = difflib.unified_diff(
            expected.splitlines(), told.splitlines(), "ZooKeeper", trial.kind, lineterm=""
        )
        assert told == expected, "\n".join(difference)


def transcript(told: str) -> str:
    """What was printed, without ids, times and events: those are printed whenever they come."""
    lines = [line.rstrip() for line in told.splitlines() if not NOISE.search(line)]
    events = sorted(line.strip() for line in told.splitlines() if line.startswith("WatchedEvent"))
    text = "\n".join([*lines, *events]) + "\n"
    for pattern, mask in MASKS:
        text = pattern.sub(mask, text)
    # Ephemerals come in the order of a HashSet of ZooKeeper's.
    return re.sub(r"(?m)^\[(/.*)\]$", lambda found: f"[{', '.join(sorted(found[1].split(', ')))}]", text)
