"""http:// on a server in JavaScript that has nothing of raftmeta in it: the protocol and the conformance suite."""

from __future__ import annotations

from tests.conformance.real_suite import run_suite
from tests.conformance.rest_reference import RestReference
from tests.doors.acceptance.trial import Trial
from tests.rest import test_protocol
from tests.rest.servers import asking

TTL_S = 3


def run(trial: Trial) -> None:
    with RestReference(trial.folder / "servers") as server:
        with asking(server.addresses) as http:
            for name, test in vars(test_protocol).items():
                if name.startswith("test_"):
                    with trial.check(name.removeprefix("test_").replace("_", " ")):
                        test(http)
        run_suite(
            trial,
            f"http://{server.addresses}?ttl_s={TTL_S}",
            server.servers(),
            has_one_server=True,
            server="the server in JavaScript",
        )
