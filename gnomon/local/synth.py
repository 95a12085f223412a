"""`make synth`: every stage's template, from an environment with nothing in it: no account, no credentials, no git."""

from __future__ import annotations

import argparse
import sys

from gnomon.local import toolchain
from gnomon.local.places import LOCAL, ROOT
from gnomon.local.processes import run
from gnomon.local.report import exit_code, step

SYNTHESIZED = ROOT / ".build" / "synth"


def synthesize(stage: str) -> None:
    """Package the functions of a stage where that is needed, and write its template to `.build/synth/<stage>`.

    Raises LocalError with what the CDK, its validation or cdk-nag said.
    """
    tools = toolchain.environment()
    with step(f"packaging the functions ({stage})"):
        run(
            [toolchain.DEVELOPMENT / "bin" / "python", "-m", "infra.bundle", "--stage", stage],
            log=LOCAL / "logs" / f"bundle-{stage}.log",
            environment=tools,
            directory=ROOT,
        )
    with step(f"synthesizing ({stage})"):
        run(
            [
                toolchain.CDK / "node_modules" / ".bin" / "cdk",
                "synth",
                "--quiet",
                "--no-notices",
                "--context",
                f"stage={stage}",
                f"--output={SYNTHESIZED / stage}",
            ],
            log=LOCAL / "logs" / f"synth-{stage}.log",
            environment={"PATH": tools["PATH"], "HOME": str(LOCAL / "home"), **toolchain.QUIET},
            directory=ROOT,
        )


def main() -> int:
    """`python -m gnomon.local.synth <stage>…`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stages", nargs="+")
    stages = parser.parse_args().stages

    def work() -> None:
        for stage in stages:
            synthesize(stage)

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main())
