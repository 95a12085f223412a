"""Lists the packages that ship with the functions: `python -m infra.sbom --stage dev` writes a CycloneDX file.

Names, versions and licenses come from the metadata that each package brings into the bundle.
"""

from __future__ import annotations

import argparse
import re
import sys
import uuid
from importlib.metadata import Distribution, distributions
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from infra.handlers import locked
from infra.stage import STAGES

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements" / "functions.txt"
_SPDX = {"Dual License": "Apache-2.0 OR BSD-3-Clause"}
"""Names that are not SPDX expressions: what python-dateutil calls its license."""


def license_of(package: Distribution) -> str:
    """The SPDX expression of a package's license; raises ValueError where its metadata names none."""
    metadata = package.metadata.json
    named = metadata.get("license_expression") or metadata.get("license")
    if not isinstance(named, str) or not named:
        raise ValueError(f"the metadata of {package.name} names no license: look it up and add it to infra/sbom.py")
    return _SPDX.get(named, named)


def describe(packages: list[Distribution], lock: Path) -> Bom:
    """The bill of materials of a bundle.

    Raises ValueError where the packages are not those that the lock file names.
    """
    found = {canonical(package.name): package.version for package in packages}
    if found != locked(lock):
        raise ValueError(f"the bundle has {found}, {lock.name} names {locked(lock)}: build the bundle again")
    licenses = LicenseFactory()
    components = [
        Component(
            name=canonical(package.name),
            version=package.version,
            type=ComponentType.LIBRARY,
            bom_ref=f"{canonical(package.name)}@{package.version}",
            purl=PackageURL("pypi", None, canonical(package.name), package.version),
            licenses=[licenses.make_from_string(license_of(package))],
        )
        for package in packages
    ]
    return Bom(components=components, serial_number=uuid.uuid5(uuid.NAMESPACE_URL, lock.read_text(encoding="utf-8")))


def canonical(name: str) -> str:
    """A package's name as PyPI and lock files write it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m infra.sbom", description="List what is in the bundle of a stage.")
    parser.add_argument("--stage", choices=sorted(STAGES), default="dev")
    folder = ROOT / ".build" / STAGES[parser.parse_args().stage].platform.directory
    try:
        bill = describe(list(distributions(path=[str(folder)])), LOCK)
    except ValueError as error:
        sys.exit(str(error))
    file = folder.with_suffix(".cdx.json")
    file.write_text(JsonV1Dot6(bill).output_as_string(indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(f"{file.relative_to(ROOT)}: {len(bill.components)} packages\n")


if __name__ == "__main__":
    main()
