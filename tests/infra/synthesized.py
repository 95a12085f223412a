"""The template of each stage, synthesized once a session with cdk-nag and the CDK's own rules on, as `cdk synth` does.

Resources are named by their construct path under the stack, and references in them are shown as such paths, so that
tests read `Queues/RunHigh.Arn` and not a generated id.
"""

import functools
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import aws_cdk as cdk

from infra import nag
from infra.grants import GRANTS, Grant
from infra.stack import GnomonStack
from infra.stage import STAGES, Stage

ROOT = Path(__file__).parents[2]


class Template:
    def __init__(self, stage: Stage, document: dict[str, Any]) -> None:
        self.stage = stage
        self.outputs: dict[str, Any] = document["Outputs"]
        self._resources: dict[str, dict[str, Any]] = {}
        self._paths: dict[str, str] = {}
        for logical_id, resource in document["Resources"].items():
            path = resource["Metadata"]["aws:cdk:path"].split("/", 1)[1].removesuffix("/Resource")
            self._resources[path] = resource
            self._paths[logical_id] = path

    def properties(self, path: str) -> dict[str, Any]:
        """Properties of one resource, references shown as paths."""
        return self.readable(self._resources[path].get("Properties", {}))

    def resource(self, path: str) -> dict[str, Any]:
        return self._resources[path]

    def of_type(self, kind: str) -> dict[str, dict[str, Any]]:
        """Properties of all resources of a type, by path."""
        return {path: self.properties(path) for path, each in self._resources.items() if each["Type"] == kind}

    def types(self) -> set[str]:
        return {each["Type"] for each in self._resources.values()}

    def readable(self, value: Any) -> Any:
        match value:
            case {"Ref": name}:
                return self._paths.get(name, f"<{name.removeprefix('AWS::')}>")
            case {"Fn::GetAtt": [name, attribute]}:
                return f"{self._paths[name]}.{attribute}"
            case {"Fn::Join": [separator, parts]}:
                return separator.join(str(self.readable(part)) for part in parts)
            case dict():
                return {key: self.readable(each) for key, each in value.items()}
            case list():
                return [self.readable(each) for each in value]
        return value

    def statements(self, role: str) -> Iterator[dict[str, Any]]:
        """What the policies of a role, named by its path, allow."""
        for policy in self.of_type("AWS::IAM::Policy").values():
            if role in policy["Roles"]:
                yield from policy["PolicyDocument"]["Statement"]

    def permissions(self, role: str) -> dict[str, set[str]]:
        """Resources by action."""
        allowed: dict[str, set[str]] = {}
        for statement in self.statements(role):
            assert statement["Effect"] == "Allow"
            for action in _listed(statement["Action"]):
                allowed.setdefault(action, set()).update(_listed(statement["Resource"]))
        return allowed


def synthesize(
    stage: Stage,
    change: Callable[[GnomonStack], object] = lambda _: None,
    *,
    grants: Mapping[str, Sequence[Grant]] = GRANTS,
) -> Template:
    """Synthesize the stack of a stage after `change`; raises RuntimeError that names what a check found."""
    context = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    with tempfile.TemporaryDirectory() as folder:
        code = Path(folder, "code")
        code.mkdir()
        (code / "module.py").write_text("", encoding="utf-8")
        app = cdk.App(context=context | {"aws:cdk:enable-path-metadata": True}, outdir=str(Path(folder, "out")))
        nag.check(app)
        stack = GnomonStack(app, f"Gnomon-{stage.name}", stage=stage, code=code, grants=grants)
        change(stack)
        assembly = app.synth()
        return Template(stage, assembly.get_stack_by_name(stack.stack_name).template)


@functools.cache
def synthesized(stage: str) -> Template:
    return synthesize(STAGES[stage])


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
