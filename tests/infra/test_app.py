"""app.py says what is wrong in a sentence: no traceback for a typing error or a missing step."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.infra.synthesized import ROOT


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stage", "message"),
    [
        ("production", "there is no stage 'production': choose one of local, dev, prod"),
        ("dev", "run `make build STAGE=dev`"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, stage: str, message: str) -> None:
    shutil.copy(ROOT / "app.py", tmp_path)

    ended = subprocess.run(
        [sys.executable, "app.py"],
        cwd=tmp_path,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "CDK_CONTEXT_JSON": json.dumps({"stage": stage}),
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 1
    assert message in ended.stderr
    assert "Traceback" not in ended.stderr
