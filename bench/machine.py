"""What was measured on: without it a number means nothing."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("aws-lambda-powertools", "pydantic", "boto3", "croniter", "moto")


def machine() -> str:
    """One sentence: system, processor, Python, packages."""
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return (
        f"{platform.system()} on {platform.machine()}, {os.cpu_count()} of {_processor()}, "
        f"{platform.python_implementation()} {platform.python_version()}, {packages}."
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return platform.processor() or "unknown processor"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "unknown processor"
