"""The CDK app: one stack for the stage that the context names (`-c stage=local|dev|prod`, default dev)."""

import sys
from pathlib import Path

import aws_cdk as cdk

from infra import nag
from infra.stack import GnomonStack
from infra.stage import STAGES, with_local_origins


def main() -> None:
    app = cdk.App()
    name = app.node.try_get_context("stage") or "dev"
    stage = STAGES.get(name)
    if stage is None:
        sys.exit(f"there is no stage {name!r}: choose one of {', '.join(STAGES)}")
    stage = with_local_origins(stage, app.node.try_get_context("localOrigins"))
    code = Path(__file__).parent / ".build" / stage.platform.directory
    if not code.is_dir():
        sys.exit(f"the code of the functions is missing ({code}): run `make build STAGE={name}`")
    nag.check(app)
    GnomonStack(app, f"Gnomon-{stage.name}", stage=stage, code=code)
    app.synth()


main()
