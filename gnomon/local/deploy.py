"""Deploys the CDK app's local stage to the emulator, where its sources changed since the last time."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from gnomon.local import aws, emulator, toolchain
from gnomon.local.places import DEFAULT_PORT, ROOT, all_places, at, locked
from gnomon.local.processes import run
from gnomon.local.report import LocalError, step

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from gnomon.local.places import Place

STAGE = "local"
INPUTS = ("functions", "infra", "app.py", "cdk.json", "pyproject.toml", "requirements")
ASSEMBLIES = ROOT / ".build" / "local"
"""What was synthesized, by fingerprint: a start after `make down` need not do it again."""
ASSETS_BUCKET = f"cdk-hnb659fds-assets-{aws.ACCOUNT}-{emulator.REGION}"
"""Where the CDK puts code: the one thing of `cdk bootstrap` that a deployment with the caller's credentials needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    outputs: dict[str, str]
    changed: str
    """When it was deployed: an emulator that was killed comes back with what it saved last, perhaps an older one."""
    fresh: bool = False
    """Whether it was deployed just now."""
    broken: str = ""
    """What is wrong with handlers of functions/jobs: they fail, everything else works."""


def ensure_deployed(place: Place, clients: aws.Aws) -> Deployed:
    """The stack, after a deployment if one was needed. Raises LocalError when it failed."""
    origins = free_origins(place, os.environ)
    wanted = fingerprint(origins)
    stamp = place.directory / "deployed.json"
    deployed = _read(stamp)
    if deployed.get("fingerprint") == wanted:
        found = _find(clients, deployed["stack"])
        if found is not None and found.changed == deployed["changed"]:
            return found
    stamp.unlink(missing_ok=True)
    broken = ""
    with locked("build"):
        assembly = ASSEMBLIES / wanted[:16]
        synthesized = assembly.with_suffix(".ok")
        if synthesized.exists():
            source = [f"--app={assembly}"]
        else:
            with step("packaging the functions"):
                broken = _bundle(place)
            source = [f"--output={assembly}", "--context", f"stage={STAGE}", "--context", f"localOrigins={origins}"]
        with step("deploying the stack"):
            have_assets_bucket(clients)
            stack = _deploy(place, source)
        if not broken:  # else it is checked again, and told again, by the next call
            synthesized.touch()
        _keep_newest(ASSEMBLIES, 3)
    found = _find(clients, stack)
    if found is None:
        raise LocalError(f"the stack {stack} is not there after its deployment", f"See {place.emulator_log}")
    if not broken:
        stamp.write_text(json.dumps({"fingerprint": wanted, "stack": stack, "changed": found.changed}))
    return replace(found, fresh=True, broken=broken)


def have_assets_bucket(clients: aws.Aws) -> None:
    """Make the bucket, unless it is there: it outlives an emulator that was killed before it saved the rest."""
    try:
        clients.s3.create_bucket(Bucket=ASSETS_BUCKET)
    except clients.s3.exceptions.BucketAlreadyOwnedByYou:
        return


def fingerprint(origins: str, root: Path = ROOT) -> str:
    """Changes with everything a deployment is made of: sources, locked packages, the Python, the free origins."""
    digest = hashlib.sha256(f"{sys.version}\0{origins}\0".encode())
    for file in _sources(root):
        digest.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def _sources(root: Path) -> Iterator[Path]:
    for name in INPUTS:
        path = root / name
        files = path.rglob("*") if path.is_dir() else [path]
        yield from sorted(file for file in files if file.is_file() and "__pycache__" not in file.parts)


def free_origins(place: Place, environment: Mapping[str, str]) -> str:
    """Where `http` targets may point although it is no public address: GNOMON_LOCAL_ORIGINS, comma-separated, or else
    every port of 127.0.0.1 but those of emulators, this one's and those of other stacks that were started here: an
    emulator does anything for whoever asks."""
    endpoints = sorted({at(DEFAULT_PORT).endpoint, place.endpoint, *(other.endpoint for other in all_places())})
    default = ",".join(["http://127.0.0.1:*", *(f"!{endpoint}" for endpoint in endpoints)])
    return environment.get("GNOMON_LOCAL_ORIGINS", default)


def _bundle(place: Place) -> str:
    """Package the functions; returns what is wrong with handlers, which keeps nothing else from being deployed."""
    problems = place.directory / "handlers.txt"
    problems.unlink(missing_ok=True)
    run(
        [toolchain.DEVELOPMENT / "bin" / "python", "-m", "infra.bundle", "--stage", STAGE, "--problems", problems],
        log=place.directory / "logs" / "bundle.log",
        environment=aws.environment(place),
        directory=ROOT,
    )
    return problems.read_text(encoding="utf-8") if problems.exists() else ""


def _deploy(place: Place, source: Sequence[str]) -> str:
    """Deploy what was synthesized, or synthesize it first; returns the stack's name."""
    outputs = place.directory / "outputs.json"
    outputs.unlink(missing_ok=True)
    run(
        [
            toolchain.CDK / "node_modules" / ".bin" / "cdk",
            "deploy",
            "--all",
            *source,
            "--require-approval=never",
            "--method=direct",
            "--no-notices",
            "--progress=events",
            f"--outputs-file={outputs}",
        ],
        log=place.directory / "logs" / "deploy.log",
        environment=aws.environment(place),
        directory=ROOT,
        advice=f"What the emulator said: {place.emulator_log}",
    )
    stacks = list(_read(outputs))
    if len(stacks) != 1:
        raise LocalError(f"one stack with outputs was to be deployed, these were: {stacks}")
    return stacks[0]


def _keep_newest(folder: Path, count: int) -> None:
    """Remove older assemblies: each holds the functions' code."""
    by_age = sorted(folder.glob("*.ok"), key=lambda file: file.stat().st_mtime, reverse=True)
    for old in by_age[count:]:
        old.unlink()
        shutil.rmtree(old.with_suffix(""), ignore_errors=True)


def _find(clients: aws.Aws, stack: str) -> Deployed | None:
    """The deployed stack; None where it is not there, or a deployment of it did not end well."""
    try:
        found = clients.cloudformation.describe_stacks(StackName=stack)["Stacks"][0]
    except ClientError:
        return None
    if found["StackStatus"] not in ("CREATE_COMPLETE", "UPDATE_COMPLETE"):
        return None
    return Deployed(
        outputs={output["OutputKey"]: output["OutputValue"] for output in found.get("Outputs", [])},
        changed=str(found.get("LastUpdatedTime", found["CreationTime"])),
    )


def _read(file: Path) -> dict[str, str]:
    try:
        content: dict[str, str] = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return content
