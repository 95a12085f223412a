"""Pages lead somewhere, name what exists, and tell nothing of the machine they were written on."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

import pytest

from infra.identity import RESOURCE_SERVER, SCOPES

ROOT = Path(__file__).parents[2]
NOT_OURS = {".git", ".venv", ".local", ".build", "cdk.out", "node_modules", "htmlcov"}
PLACES = ("home", "root", "Users", "mnt", "work", "workspace")
SCOPE_NAMES = {f"{RESOURCE_SERVER}/{scope}" for scope in SCOPES}
HOSTS = ("index-url https", "simple/", "pythonhosted", '"resolved": "http')


@cache
def sources() -> tuple[Path, ...]:
    """Every file of the project, but what was made or installed here."""
    found: list[Path] = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [
            name
            for name in folders
            if name not in NOT_OURS and not name.endswith(("_cache", "__pycache__")) and name != ".hypothesis"
        ]
        found += [Path(folder, name) for name in files if not name.endswith(".pyc") and name != ".git"]
    return tuple(found)


def pages() -> list[Path]:
    return [file for file in sources() if file.suffix == ".md"]


def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), f"{page.name}: {target}"
        assert ROOT in linked.parents, f"{page.name}: {target}"
        assert not anchor or anchor in anchors(linked), f"{page.name}: {target}"


def test_commands_of_make_exist() -> None:
    targets = set(re.findall(r"^([a-z0-9]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for page in pages():
        code = "\n".join(re.findall(r"```.*?```|`[^`\n]+`", page.read_text(encoding="utf-8"), re.DOTALL))
        for target in re.findall(r"\bmake ([a-z0-9]+)", code):
            assert target in targets, f"{page.name}: make {target}"


def test_modules_and_files_that_are_named_exist() -> None:
    for page in pages():
        for name in re.findall(
            r"`((?:functions|infra|gnomon|tests|events|docs)/[\w./-]+)`", page.read_text(encoding="utf-8")
        ):
            assert name in SCOPE_NAMES or (ROOT / name).exists(), f"{page.name}: {name}"


def test_pages_that_the_code_cites_exist() -> None:
    protocol = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
    for file in sources():
        if file.suffix != ".py":
            continue
        content = file.read_text(encoding="utf-8")
        for page in re.findall(r"[\w/-]+\.md\b", content):
            assert any(str(known).endswith(f"/{page}") for known in pages()), f"{file.name}: {page}"
        for number in re.findall(r"protocol\.md, (1\.\d)", content):
            assert f"### {number} " in protocol, f"{file.name}: {number}"
        if ROOT / "functions" in file.parents:
            for number in re.findall(r"\(([VA]\d+)\)", content):
                assert f"**{number}**" in protocol, f"{file.name}: {number}"


def test_the_readmes_tree_is_the_tree() -> None:
    tree = re.search(r"```\n(app\.py .*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert tree
    named = {line.split()[0].rstrip("/") for line in tree[1].splitlines() if not line.startswith(" ")}
    folders = {file.relative_to(ROOT).parts[0] for file in sources() if len(file.relative_to(ROOT).parts) > 1}
    assert {name for name in folders if not name.startswith(".")} | {"app.py"} == named


def test_decisions_are_numbered_listed_and_whole() -> None:
    folder = ROOT / "docs" / "decisions"
    files = sorted(folder.glob("[0-9]*.md"))
    assert [int(file.name[:4]) for file in files] == list(range(1, len(files) + 1))
    listed = re.findall(
        r"^\| \[(\d{4})\]\((\S+)\) \| (.*) \|$", (folder / "README.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert [name for _, name, _ in listed] == [file.name for file in files]
    for file, (number, _, title) in zip(files, listed, strict=True):
        lines = file.read_text(encoding="utf-8").splitlines()
        assert lines[0] == f"# {number} {title}"
        assert re.findall(r"^\*\*(\w+)\.\*\*", "\n".join(lines), re.MULTILINE) == [
            "Context",
            "Decision",
            "Why",
            "Costs",
        ]


def test_nothing_tells_of_a_machine() -> None:
    place = re.compile(rf"(?<![\w./$}}>-])/(?:{'|'.join(PLACES)})/[\w.-]+")
    for file in sources():
        if file == Path(__file__) or not file.is_file():
            continue
        try:
            content = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        assert not place.search(content), f"{file.relative_to(ROOT)}: {place.search(content)}"
        assert not [host for host in HOSTS if host in content], f"{file.relative_to(ROOT)} names a package index"
