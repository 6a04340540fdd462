"""A look at a host before a node runs there: what will stop it, what will make it slow, and what to do about each.

from raftmeta import doctor
for finding in doctor.examine("a", peers={"a": "10.0.0.1:7001", ...}, data_dir="/var/lib/broker/a"):
    print(finding.level, finding.check, finding.text, finding.advice)

It asks the host only: the folder, the clock, limits, names and addresses, certificates. It decides nothing for a node,
and leaves nothing behind. docs/operations.md "Before trouble" tells the checks and their bounds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from raftmeta.config import Config, Identity
from raftmeta.doctor.certificates import check_certificates
from raftmeta.doctor.disk import check_file_system, check_folder, check_space, check_syncs
from raftmeta.doctor.findings import Finding, Level
from raftmeta.doctor.host import check_clock, check_limits, check_memory, check_processor, check_versions
from raftmeta.doctor.network import check_addresses, check_reach
from raftmeta.security.settings import Tls

__all__ = ["Finding", "Level", "examine"]

SYNC_S = 2.0
PROCESSOR_S = 1.0


def examine(
    name: str,
    *,
    peers: Mapping[str, str],
    data_dir: str | os.PathLike[str],
    listen: str | None = None,
    advertise: str | None = None,
    cluster: str = "default",
    config: Config | None = None,
    tls: Tls | None = None,
    wait_s: float = 3.0,
) -> Iterator[Finding]:
    """Look at this host as the place of the node `name`, and tell each finding as soon as it is known.

    The arguments are those of Node(), which is not started. wait_s: seconds to wait for connections of the other hosts.
    Run this on all of them at the same time, or while their nodes run: each then sees whether the others reach it.
    All checks together take wait_s and about four seconds more. A file is written in data_dir and removed again; if
    data_dir is not there, the file stands in the nearest folder above.
    Raises ConfigError for arguments that Node() would refuse.
    """
    settings = Config() if config is None else config
    identity = Identity.check(
        name,
        peers=peers,
        data_dir=data_dir,
        listen=listen,
        advertise=advertise,
        cluster=cluster,
        config=settings,
        is_private=tls is not None and not tls.accept_plain,
    )
    return _findings(identity, settings, tls, wait_s)


def _findings(identity: Identity, config: Config, tls: Tls | None, wait_s: float) -> Iterator[Finding]:
    yield check_versions()
    yield from check_folder(identity.data_dir)
    yield from check_file_system(identity.data_dir)
    yield check_space(identity.data_dir, config)
    yield check_syncs(identity.data_dir, SYNC_S)
    yield check_clock(has_tls=tls is not None)
    yield check_processor(config, PROCESSOR_S)
    yield from check_limits(config)
    yield check_memory(config)
    if tls is not None:
        yield from check_certificates(tls, identity.cluster, identity.name)
    yield from check_addresses(identity)
    yield from check_reach(identity, config, wait_s)
