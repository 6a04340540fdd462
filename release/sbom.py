"""The bill of materials of a wheel: CycloneDX JSON, from the wheel itself and the metadata of what is installed here.

It lists what the wheel carries (libraries that auditwheel put in), what pip brings with it (required and optional
distributions, in the versions of constraints.txt), and what it was built by. The file goes into the wheel, as PEP 770
has it, and beside it. The same wheel gives the same file: it has no clock and no random number.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import tomllib
import uuid
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SPECIFICATION = "1.6"
PLACE = "sboms/raftmeta.cdx.json"  # in the wheel's .dist-info
_NAMESPACE = uuid.UUID("5f0f0f0a-7a55-5e0c-9f3b-0d2c1c6a7d11")

Component = dict[str, Any]


def spelled(name: str) -> str:
    """As package registries compare names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned() -> dict[str, str]:
    """The version of each distribution in constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return {spelled(name): version for name, _, version in (line.partition("==") for line in lines) if version}


def licence_of(name: str) -> list[dict[str, Any]]:
    """As the installed distribution declares it; nothing if it is not installed or says nothing."""
    try:
        told = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return []
    if "License-Expression" in told:
        return [{"expression": told["License-Expression"]}]
    text = told["License"].strip() if "License" in told else ""
    return [{"license": {"name": text}}] if text and "\n" not in text else []


def distribution(name: str, version: str, scope: str) -> Component:
    found: Component = {
        "type": "library",
        "bom-ref": f"pkg:pypi/{spelled(name)}@{version}",
        "name": spelled(name),
        "version": version,
        "scope": scope,
        "purl": f"pkg:pypi/{spelled(name)}@{version}",
    }
    if licences := licence_of(name):
        found["licenses"] = licences
    return found


def named_in(requirements: list[str]) -> set[str]:
    return {spelled(re.split(r"[ <>=!~;\[]", wanted, maxsplit=1)[0]) for wanted in requirements}


def distributions() -> Iterator[Component]:
    """Those that pyproject.toml names: required, optional by an extra of users, or for the build only."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        table = tomllib.load(file)
    project, versions = table["project"], pinned()
    required = named_in(project["dependencies"])
    extras = project["optional-dependencies"]
    ours = {"bench", "check", "demo", "dev", "test", "wheel"}
    optional = set().union(*(named_in(wanted) for extra, wanted in extras.items() if extra not in ours)) - required
    build = named_in(table["build-system"]["requires"]) - required - optional
    for names, scope in ((required, "required"), (optional, "optional"), (build, "excluded")):
        for name in sorted(names):
            yield distribution(name, versions[name], scope)


def owner_of(library: str) -> tuple[str, str]:
    """Debian's package and version of a library of this machine; ("", "") where there is no such thing."""
    plain = re.sub(r"-[0-9a-f]{8}(?=\.)", "", library)  # auditwheel puts a hash into the name
    asked = subprocess.run(["dpkg-query", "--search", f"*/{plain}"], capture_output=True, text=True, check=False)
    package = asked.stdout.split(":")[0].strip()
    if not package:
        return "", ""
    format_ = "--showformat=${Version}"
    version = subprocess.run(["dpkg-query", "--show", format_, package], capture_output=True, text=True, check=False)
    return package, version.stdout.strip()


def carried(archive: zipfile.ZipFile) -> Iterator[Component]:
    """The shared libraries that are in the wheel and were not built here."""
    for name in sorted(archive.namelist()):
        if not re.match(r"raftmeta\.libs/[^/]+\.so", name):
            continue
        library = Path(name).name
        package, version = owner_of(library)
        content = archive.read(name)
        found: Component = {
            "type": "library",
            "bom-ref": f"file:{name}",
            "name": library,
            "scope": "required",
            "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(content).hexdigest()}],
        }
        if package:
            found |= {"version": version, "purl": f"pkg:deb/debian/{package}@{version}"}
        yield found


def described(wheel: Path) -> dict[str, Any]:
    """The bill of materials of the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        inside = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        told = archive.read(inside).decode()
        libraries = list(carried(archive))
        names = sorted(name for name in archive.namelist() if ".dist-info/" not in name)
        content = hashlib.sha256(b"".join(hashlib.sha256(archive.read(name)).digest() for name in names)).hexdigest()
    version = re.search(r"^Version: (.+)$", told, re.MULTILINE)
    licence = re.search(r"^License-Expression: (.+)$", told, re.MULTILINE)
    assert version and licence, f"{wheel}: its metadata names no version or no licence"
    own = f"pkg:pypi/raftmeta@{version[1]}"
    others = list(distributions())
    needed = [one["bom-ref"] for one in others if one["scope"] == "required"]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": SPECIFICATION,
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, wheel.name + content)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": own,
                "name": "raftmeta",
                "version": version[1],
                "purl": own,
                "licenses": [{"expression": licence[1]}],
                "properties": [{"name": "raftmeta:wheel", "value": wheel.name}],
            }
        },
        "components": [*others, *libraries],
        "dependencies": [
            {"ref": own, "dependsOn": [*needed, *(one["bom-ref"] for one in libraries)]},
            *({"ref": one["bom-ref"], "dependsOn": []} for one in (*others, *libraries)),
        ],
    }


def record_line(name: str, content: bytes) -> str:
    """A line of RECORD: PEP 376, with the hash of the binary distribution format."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"


def add(wheel: Path) -> Path:
    """Put the bill of materials into the wheel, and beside it; return the file beside it."""
    text = json.dumps(described(wheel), indent=1).encode() + b"\n"
    working = wheel.with_suffix(".tmp")
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(working, "w", zipfile.ZIP_DEFLATED) as new:
        record = next(name for name in old.namelist() if name.endswith(".dist-info/RECORD"))
        place = record.removesuffix("RECORD") + PLACE
        lines = ""
        for item in old.infolist():
            if item.filename == record:
                lines = old.read(item).decode()
            elif item.filename != place:
                new.writestr(item, old.read(item))
        lines = "".join(line for line in lines.splitlines(keepends=True) if not line.startswith(f"{place},"))
        stamp = old.infolist()[0].date_time
        new.writestr(_entry(place, stamp), text)
        new.writestr(_entry(record, stamp), lines + record_line(place, text))
    working.replace(wheel)
    beside = wheel.with_name(f"{wheel.name}.cdx.json")
    beside.write_bytes(text)
    return beside


def _entry(name: str, stamp: tuple[int, int, int, int, int, int]) -> zipfile.ZipInfo:
    item = zipfile.ZipInfo(name, stamp)
    item.compress_type = zipfile.ZIP_DEFLATED
    item.external_attr = 0o100644 << 16
    return item
