"""Lets pip, uv and Node trust what the machine trusts: a company's own CA is in the system's store, not in theirs.

What the user's environment says already is kept. Standard library only.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Ubuntu, Arch, Alpine
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora, RHEL, Amazon Linux
    "/etc/ssl/ca-bundle.pem",  # openSUSE
)


def trusting(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment, with the machine's certificates for each tool that was not told otherwise."""
    told = dict(environment)
    told.setdefault("UV_SYSTEM_CERTS", "true")
    bundle = told.get("SSL_CERT_FILE") or _machine_bundle()
    if bundle:
        told.setdefault("PIP_CERT", bundle)
        # --use-system-ca would say the same, but Node refuses to start with it before 22.15.
        told.setdefault("NODE_EXTRA_CA_CERTS", bundle)
    if "PIP_INDEX_URL" in told:
        told.setdefault("UV_DEFAULT_INDEX", told["PIP_INDEX_URL"])
    return told


def node_options(current: str, version: tuple[int, int, int]) -> str:
    """NODE_OPTIONS with the system's store (macOS keychain included), for a Node that knows the option."""
    option = "--use-system-ca"
    known = (version >= (22, 15, 0) and version[0] != 23) or version >= (23, 8, 0)
    if not known or option in current.split():
        return current
    return f"{current} {option}".strip()


def _machine_bundle() -> str | None:
    return next((bundle for bundle in BUNDLES if Path(bundle).is_file()), None)
