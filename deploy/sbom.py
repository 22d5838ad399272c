"""Writes down what the gate is made of, as CycloneDX: `deploy/sbom.py target/oncegate.cdx.json`.

Promises: exactly the crates that are compiled into the program for this machine's target, each with its version,
licence, checksum and place of origin, and who needs whom; valid by CycloneDX's own schema; the same lock, the same file.

Absent on purpose: crates that only build scripts, macros or tests need. They are in no image.
"""

import json
import pathlib
import subprocess
import sys
import tomllib
import uuid

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

ROOT = pathlib.Path(__file__).resolve().parents[1]


def told(*command):
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def crates():
    """The root package's id, every package by its id, and what each linked one needs."""
    host = next(line.split()[1] for line in told("rustc", "-vV").splitlines() if line.startswith("host:"))
    graph = json.loads(told("cargo", "metadata", "--format-version=1", "--locked", f"--filter-platform={host}"))
    packages = {one["id"]: one for one in graph["packages"]}
    # The graph has what tests and macros need as well; the tree says what is linked.
    tree = told("cargo", "tree", "--locked", f"--target={host}", "--edges=normal,no-proc-macro", "--prefix=none", "--format={p}")
    linked = {tuple(line.replace(" v", " ").split()[:2]) for line in tree.splitlines() if line}
    linked = {id for id, one in packages.items() if (one["name"], one["version"]) in linked}
    nodes = {one["id"]: one["deps"] for one in graph["resolve"]["nodes"] if one["id"] in linked}
    runs = lambda one: one["pkg"] in linked and any(kind["kind"] is None for kind in one["dep_kinds"])
    needs = {id: sorted(one["pkg"] for one in deps if runs(one)) for id, deps in nodes.items()}
    return graph["resolve"]["root"], packages, needs


def main():
    root, packages, linked = crates()
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    checksums = {(one["name"], one["version"]): one.get("checksum") for one in lock}
    licences = LicenseFactory()

    def component(crate):
        package = packages[crate]
        checksum = checksums[package["name"], package["version"]]
        # Crates of old write MIT/Apache-2.0 where the standard has OR.
        licence = (package["license"] or "").replace("/", " OR ")
        return Component(
            type=ComponentType.APPLICATION if crate == root else ComponentType.LIBRARY,
            name=package["name"],
            version=package["version"],
            bom_ref=f"{package['name']}@{package['version']}",
            purl=PackageURL(type="cargo", name=package["name"], version=package["version"]),
            description=package["description"],
            licenses=[licences.make_from_string(licence)] if licence else [],
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=checksum)] if checksum else [],
        )

    components = {crate: component(crate) for crate in linked}
    bom = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_URL, (ROOT / "Cargo.lock").read_text()))
    bom.metadata.component = components[root]
    bom.components = [one for crate, one in components.items() if crate != root]
    for crate, needs in linked.items():
        bom.register_dependency(components[crate], [components[one] for one in needs])

    text = json.loads(JsonV1Dot6(bom).output_as_string())
    # The hour of its making would make it another file each time.
    del text["metadata"]["timestamp"]
    text = json.dumps(text, indent=1, sort_keys=True) + "\n"
    fault = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if fault:
        sys.exit(f"the bill of materials is not valid: {fault}")
    target = ROOT / sys.argv[1]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    print(f"{sys.argv[1]}: {len(components) - 1} crates.")


if __name__ == "__main__":
    main()
