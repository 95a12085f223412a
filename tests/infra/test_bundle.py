import dataclasses
import json
import shutil
import stat
import sys
from pathlib import Path

import pytest

from infra.bundle import BundleError, HandlersError, bundle
from infra.stage import LAMBDA_ARM64, STAGES, THIS_MACHINE, Platform

UV = f"""#!{sys.executable}
import pathlib, sys
arguments = sys.argv[1:]
requirements = pathlib.Path(arguments[arguments.index("--requirement") + 1])
if requirements.read_text() == "broken":
    sys.exit(2)
target = pathlib.Path(arguments[arguments.index("--target") + 1])
(target / "package.py").write_text(requirements.read_text())
with open(requirements.parent / "calls", "a") as calls:
    calls.write(" ".join(arguments) + chr(10))
"""


class Project:
    """A checkout with a uv that writes down how it was called."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.uv = root / "uv"
        self.uv.write_text(UV, encoding="utf-8")
        self.uv.chmod(self.uv.stat().st_mode | stat.S_IXUSR)
        self.requirements = root / "requirements" / "functions.txt"
        self.requirements.parent.mkdir()
        self.requirements.write_text("one", encoding="utf-8")
        self.module = root / "functions" / "handlers" / "api.py"
        self.module.parent.mkdir(parents=True)
        self.module.write_text("handler = 1", encoding="utf-8")

    def bundle(self, target: Platform = LAMBDA_ARM64) -> bool:
        return bundle(target, root=self.root, uv=str(self.uv))

    def built(self, target: Platform = LAMBDA_ARM64) -> dict[str, str]:
        folder = self.root / ".build" / target.directory
        return {
            file.relative_to(folder).as_posix(): file.read_text(encoding="utf-8")
            for file in folder.rglob("*")
            if file.is_file()
        }

    @property
    def calls(self) -> list[str]:
        return (self.requirements.parent / "calls").read_text(encoding="utf-8").splitlines()


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_dependencies_and_functions_lie_side_by_side(project: Project) -> None:
    assert project.bundle()

    assert project.built() == {"package.py": "one", "functions/handlers/api.py": "handler = 1"}


def test_nothing_is_made_from_unchanged_inputs(project: Project) -> None:
    project.bundle()

    assert not project.bundle()

    assert len(project.calls) == 1


def test_compiled_files_are_no_inputs_and_are_left_out(project: Project) -> None:
    project.bundle()
    cache = project.module.parent / "__pycache__"
    cache.mkdir()
    (cache / "api.cpython-314.pyc").write_bytes(b"x")

    assert not project.bundle()

    project.module.write_text("handler = 2", encoding="utf-8")
    assert project.bundle()
    assert project.built() == {"package.py": "one", "functions/handlers/api.py": "handler = 2"}


def test_byte_code_is_made_by_the_python_that_will_run_it(project: Project) -> None:
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    same = dataclasses.replace(LAMBDA_ARM64, directory="same", python=here)
    again = dataclasses.replace(same, directory="again")

    for target in (same, again, dataclasses.replace(same, directory="other", python="3.9")):
        assert project.bundle(target)

    def compiled(directory: str) -> dict[str, bytes]:
        folder = project.root / ".build" / directory
        return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*.pyc")}

    tag = sys.implementation.cache_tag
    assert set(compiled("same")) == {
        f"__pycache__/package.{tag}.pyc",
        f"functions/handlers/__pycache__/api.{tag}.pyc",
    }
    assert compiled("same") == compiled("again")
    assert compiled("other") == {}
    for code in compiled("same").values():
        assert code[4:8] == (1).to_bytes(4, "little"), "valid by hash, and not looked at again"
        assert b"/var/task/" in code
        assert str(project.root).encode() not in code


def test_a_changed_lock_a_removed_module_and_a_lost_folder_are_noticed(project: Project) -> None:
    second = project.module.with_name("sweep.py")
    second.write_text("", encoding="utf-8")
    project.bundle()

    project.requirements.write_text("two", encoding="utf-8")
    assert project.bundle()
    assert project.built()["package.py"] == "two"

    second.unlink()
    assert project.bundle()
    assert set(project.built()) == {"package.py", "functions/handlers/api.py"}

    (project.root / ".build" / LAMBDA_ARM64.directory).rename(project.root / "elsewhere")
    assert project.bundle()


def test_platforms_do_not_meet(project: Project) -> None:
    project.bundle(LAMBDA_ARM64)
    project.bundle(THIS_MACHINE)

    assert not project.bundle(LAMBDA_ARM64)
    assert not project.bundle(THIS_MACHINE)
    arm, here = project.calls
    assert "--python-platform aarch64-manylinux2014 --python-version 3.14" in arm
    assert "--python-platform" not in here
    assert "--python-version" not in here


def test_wheels_are_checked_and_never_compiled(project: Project) -> None:
    project.bundle()

    (call,) = project.calls
    assert "--require-hashes" in call
    assert "--only-binary :all:" in call


def test_a_failure_is_an_error_and_the_next_call_tries_again(project: Project) -> None:
    project.bundle()
    project.requirements.write_text("broken", encoding="utf-8")

    for _ in range(2):
        with pytest.raises(BundleError, match=r"requirements/functions\.txt"):
            project.bundle()

    project.requirements.write_text("one", encoding="utf-8")
    assert project.bundle()


def test_what_goes_to_aws_is_built_for_the_runtime_of_its_functions() -> None:
    for name in ("dev", "prod"):
        stage = STAGES[name]
        assert stage.platform == LAMBDA_ARM64
        assert (stage.architecture, stage.runtime) == ("ARM_64", "PYTHON_3_14")
    assert STAGES["local"].platform == THIS_MACHINE


def with_handlers(project: Project) -> Path:
    """The project with the real functions/jobs; returns its folder."""
    jobs = project.root / "functions" / "jobs"
    shutil.copytree(Path(__file__).parents[2] / "functions" / "jobs", jobs)
    (project.root / "functions" / "__init__.py").touch()
    return jobs


def test_a_handler_that_cannot_be_imported_is_named_and_nothing_is_made(project: Project) -> None:
    jobs = with_handlers(project)
    assert project.bundle()
    before = project.built()
    (jobs / "broken.py").write_text('@job("close")\ndef x(:\n', encoding="utf-8")

    for _ in range(2):
        with pytest.raises(HandlersError, match=r"functions/jobs/broken \(handlers: close\)"):
            project.bundle()

    assert project.built() == before
    (jobs / "broken.py").unlink()
    assert project.bundle()


def test_a_tolerant_bundle_has_what_works_and_says_so_each_time(project: Project) -> None:
    jobs = with_handlers(project)
    (jobs / "broken.py").write_text('import nobody_has_this\n\n\n@job("close")\ndef x(payload, run): ...\n')

    for _ in range(2):
        with pytest.raises(HandlersError, match="nobody_has_this"):
            bundle(THIS_MACHINE, root=project.root, uv=str(project.uv), tolerant=True)

    manifest = json.loads(project.built(THIS_MACHINE)["functions/jobs/_manifest.json"])
    assert manifest["handlers"] == {"close": ["broken"], "echo": ["echo"], "expire-files": ["expire_files"]}
    assert manifest["broken"].keys() == {"broken"}
    (jobs / "broken.py").unlink()
    assert project.bundle(THIS_MACHINE)
    assert not project.bundle(THIS_MACHINE)
    assert json.loads(project.built(THIS_MACHINE)["functions/jobs/_manifest.json"])["broken"] == {}


def test_a_manifest_in_the_sources_is_not_taken_for_that_of_the_bundle(project: Project) -> None:
    jobs = with_handlers(project)
    (jobs / "_manifest.json").write_text("{}", encoding="utf-8")

    project.bundle()

    assert "echo" in project.built()["functions/jobs/_manifest.json"]
