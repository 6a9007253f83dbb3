"""`run-kcm new NAME`: writes a project with an operator, its tests, a container file and a workflow for CI.

Exit codes: 0; 1 with a line about the error; 2 for malformed arguments.
"""

from __future__ import annotations

import argparse
import keyword
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from kcm.actors.command.generation.command import main as generate_manifests
from kcm.runtime.process.distributions import installed_version

_NAME = re.compile("[a-z]([a-z0-9-]{0,48}[a-z0-9])?")
_KIND = re.compile("[A-Z][A-Za-z0-9]{0,50}")
_GROUP = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+")

OPERATOR = '''"""Operator of {Kind}s: each {Kind} has a ConfigMap with its text. Replace that by what yours provides."""

import sys
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from kcm import ControllerSpec, Key, Queue, Reconciliation, Resource, Tables, Watch, main
from kcm.commands import record
from kcm.manifests import Definition, Permission, PrinterColumn
from kcm.objects import ObjectMeta, own
from kcm.specs import its_controller, itself
from kcm.steps import ensure, patch_status


@dataclass(frozen=True)
class Spec:
    """Desired state of a {Kind}."""

    text: Annotated[str, Meta(min_length=1, max_length=200)]


@dataclass(frozen=True)
class Status:
    """Observed state of a {Kind}."""

    observedGeneration: int = 0
    published: str = ""


@dataclass(frozen=True)
class {Kind}:
    """{Kind} of this operator."""

    metadata: ObjectMeta
    spec: Spec
    status: Status = Status()


{KINDS} = Resource(group="{group}", version="v1", plural="{plural}", kind="{Kind}", model={Kind})
CONFIGMAPS = Resource(version="v1", plural="configmaps", kind="ConfigMap")


class {Kind}s:
    def __init__(self, tables: Tables) -> None:
        self._{plural}, self._configmaps = tables[{KINDS}], tables[CONFIGMAPS]

    def reconcile(self, key: Key) -> Reconciliation:
        {kind} = self._{plural}.get(key)
        if {kind} is None or {kind}.metadata.deletionTimestamp is not None:
            return None  # the garbage collector deletes its ConfigMap
        name, namespace = {kind}.metadata.name, {kind}.metadata.namespace
        wanted = {"metadata": {"name": name, "namespace": namespace}, "data": {"text": {kind}.spec.text}}
        yield from ensure(self._configmaps, own(wanted, by={kind}, of={KINDS}))
        status = {"observedGeneration": {kind}.metadata.generation, "published": {kind}.spec.text}
        if {kind}.status.published != {kind}.spec.text:
            yield record({KINDS}, {kind}, "Normal", "Published", "The text is published")
        yield from patch_status(self._{plural}, {kind}, status)
        return None


SPEC = ControllerSpec(
    name="{name}",
    queues=(Queue(watches=(Watch({KINDS}, to=itself), Watch(CONFIGMAPS, to=its_controller({KINDS})))),),
    build=lambda context: {Kind}s(context.tables),
    permissions=(Permission(CONFIGMAPS, ("ensure",)), Permission({KINDS}, ("patch",), "status")),
    definitions=(Definition({KINDS}, columns=(PrinterColumn("Published", ".status.published"),)),),
)


if __name__ == "__main__":
    sys.exit(main([SPEC], name="{name}"))
'''
TESTS = '''"""Tests of the operator on a simulated cluster. A request without a declared permission fails a test."""

import pytest
from {module} import CONFIGMAPS, {KINDS}, SPEC

from kcm import Resource
from kcm.manifests import custom_resource_definitions
from kcm.outcomes import CommandError, Invalid
from kcm.testing import SimulatedCluster

CRDS = Resource(
    group="apiextensions.k8s.io",
    version="v1",
    plural="customresourcedefinitions",
    kind="CustomResourceDefinition",
    namespaced=False,
)


def prepare(cluster: SimulatedCluster) -> None:
    for definition in custom_resource_definitions([SPEC]):
        cluster.create(CRDS, definition)


def text_of(cluster: SimulatedCluster, key: str) -> str:
    found = cluster.get(CONFIGMAPS, key)
    return "" if found is None else found["data"]["text"]


def test_a_{kind}_is_published_changed_and_deleted(world: SimulatedCluster) -> None:
    prepare(world)
    world.manager(controllers=(SPEC,))
    world.create({KINDS}, {"metadata": {"name": "a"}, "spec": {"text": "hello"}})
    assert world.run_until(lambda: text_of(world, "default/a") == "hello")
    world.merge({KINDS}, "default/a", {"spec": {"text": "bye"}})
    assert world.run_until(lambda: text_of(world, "default/a") == "bye")
    world.run_for(5)
    found = world.get({KINDS}, "default/a")
    assert found is not None
    assert found["status"]["published"] == "bye"
    world.delete({KINDS}, "default/a")
    assert world.run_until(lambda: world.get(CONFIGMAPS, "default/a") is None)


def test_a_{kind}_without_a_text_is_rejected(world: SimulatedCluster) -> None:
    prepare(world)
    with pytest.raises(CommandError) as err:
        world.create({KINDS}, {"metadata": {"name": "a"}, "spec": {"text": ""}})
    assert isinstance(err.value.failure, Invalid)
'''
FAULTS = '''"""The operator under faults. Each seed draws user actions and faults; more seeds:

python -m kcm.simulate --setting test_{module}_faults:SETTING --seeds 1000
"""

import functools
from collections.abc import Iterator
from typing import Any

import pytest
from test_{module} import prepare, text_of
from {module} import CONFIGMAPS, {KINDS}, SPEC

from kcm.objects import key_of
from kcm.testing import (
    Action,
    Owns,
    Scenario,
    Setting,
    SimulatedCluster,
    Trial,
    draw_plan,
    must_hold,
    user_creates,
    user_deletes,
    user_merges,
)


def actions(scenario: Scenario) -> Iterator[Action]:
    chance = scenario.chance("{plural}")
    yield user_creates(1.0, {KINDS}, {"metadata": {"name": "a"}, "spec": {"text": "first"}})
    for at in scenario.times(chance, chance.randint(2, 5)):
        if chance.random() < 0.3:
            yield user_deletes(at, CONFIGMAPS, "default/a")
        else:
            yield user_merges(at, {KINDS}, "default/a", {"spec": {"text": chance.choice(("one", "two", "three"))}})


def unsettled(cluster: SimulatedCluster) -> Iterator[str]:
    for {kind} in cluster.list({KINDS}):
        wanted, published = {kind}["spec"]["text"], text_of(cluster, key_of({kind}))
        if published != wanted:
            yield f"{key_of({kind})} is published as {published!r}, not {wanted!r}"
        if {kind}.get("status", {}).get("published") != wanted:
            yield f"the status of {key_of({kind})} is {{kind}.get('status')}"


def end_state(cluster: SimulatedCluster) -> dict[str, Any]:
    return {"{plural}": {key_of(each): (each["spec"], each.get("status")) for each in cluster.list({KINDS})}}


SETTING = Setting(
    name="test_{module}_faults:SETTING",
    controllers=(SPEC,),
    trials=(
        Trial(
            controller=SPEC.name,
            owns=(Owns({KINDS}, CONFIGMAPS),),
            actions=actions,
            unsettled=unsettled,
            end_state=end_state,
        ),
    ),
    prepare=prepare,
    draw=functools.partial(draw_plan, resources=("*", "{plural}", "configmaps")),
)


@pytest.mark.parametrize("seed", range(5))
def test_{plural}_are_published_after_faults(seed: int) -> None:
    must_hold(seed, setting=SETTING)
'''
CONTAINER = """# docker build --tag {name}:latest .
FROM docker.io/library/debian:trixie-slim AS build
RUN apt-get update && apt-get install --yes --no-install-recommends python3 python3-venv
RUN python3 -m venv /opt/operator
WORKDIR /src
COPY requirements.txt ./
COPY wheels ./wheels
RUN /opt/operator/bin/pip install --no-cache-dir --requirement requirements.txt
COPY {module}.py /opt/operator/

FROM gcr.io/distroless/python3-debian13:nonroot
COPY --from=build /opt/operator /opt/operator
ENV PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
EXPOSE 8443
ENTRYPOINT ["/opt/operator/bin/python", "/opt/operator/{module}.py"]
"""
WORKFLOW = """name: Test

on: [push, pull_request]

permissions:
  contents: read

jobs:
  test:
    runs-on: ubuntu-latest
    timeout-minutes: 15
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.13"
      - run: pip install --requirement requirements.txt --requirement requirements-test.txt
      - run: python -m pytest
      - name: Generated manifests are those in the repository
        run: |
          run-kcm manifests {module}:SPEC --output config
          git add --intent-to-add config
          git diff --exit-code config
"""
README = """# {name}

An operator of {Kind}s (`{plural}.{group}`), written with kcm. Its wheel belongs to the project, because kcm is on no
index: the package of this name there is another one.

    pip wheel --no-deps --wheel-dir wheels PATH_OF_KCM     # kcm {version}
    pip install --requirement requirements.txt --requirement requirements-test.txt
    python -m pytest                                       # on a simulated cluster, and under faults
    run-kcm dev {module}:SPEC                              # run it while you edit it
    run-kcm manifests {module}:SPEC --output config        # CustomResourceDefinition, RBAC, Deployment
    docker build --tag {name}:latest .
    kubectl apply --kustomize config

| file | content |
| --- | --- |
| `{module}.py` | models, reconciler, permissions; `python {module}.py --help` shows its flags |
| `test_{module}.py` | tests on a simulated cluster |
| `test_{module}_faults.py` | campaign: seeds that draw user actions and faults |
| `Containerfile` | image without a shell, for a user without privileges |
| `config` | generated manifests: generate them again after a change of models, watches or permissions |
| `wheels` | kcm {version} |
| `.github/workflows/test.yml` | tests, and a check that `config` is up to date |
"""
FILES = {
    "{module}.py": OPERATOR,
    "test_{module}.py": TESTS,
    "test_{module}_faults.py": FAULTS,
    "Containerfile": CONTAINER,
    ".github/workflows/test.yml": WORKFLOW,
    "README.md": README,
    "requirements.txt": "# kcm is on no index: pip wheel --no-deps --wheel-dir wheels PATH_OF_KCM\n{wheel}\n",
    "requirements-test.txt": "pytest>=9.0.3,<10\npytest-timeout>=2.3,<3\n",
    ".gitignore": "__pycache__/\n.pytest_cache/\n.venv/\n",
}


def main(argv: Sequence[str]) -> int:
    """Run the command, and return its exit code. argv: the arguments after `new`."""
    arguments = parser().parse_args(argv)
    name: str = arguments.name
    kind = arguments.kind or "".join(
        part.capitalize() for part in re.sub("-(operator|controller)$", "", name).split("-")
    )
    folder = Path(arguments.directory or name)
    try:
        if folder.exists() and any(folder.iterdir()):
            raise FileExistsError(f"{folder} exists and is not empty")
        texts = project_files(name, kind, arguments.group)
        for path, text in texts.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
        specs = f"{folder / name.replace('-', '_')}.py:SPEC"
        with redirect_stdout(StringIO()):
            generate_manifests([specs, f"--output={folder / 'config'}"])
    except (OSError, ValueError) as err:
        print(f"Error: {err}", file=sys.stderr)
        return 1
    print(f"Wrote {len(texts)} files to {folder}. Begin with {folder / 'README.md'}")
    return 0


def project_files(name: str, kind: str, group: str) -> dict[str, str]:
    """Return the files of a project by their path. Raises ValueError for a kind that Python cannot name."""
    singular = kind.lower()
    plural = f"{singular}es" if singular.endswith(("s", "x", "ch", "sh")) else f"{singular}s"
    module = name.replace("-", "_")
    if keyword.iskeyword(singular) or keyword.iskeyword(module):
        raise ValueError(f"{kind} and {name} become names in Python, and one of them is a keyword")
    if module in sys.stdlib_module_names:
        raise ValueError(f"{name} becomes the module {module}, which Python has already")
    if kind in (
        "Spec",
        "Status",
        "ConfigMap",
        "Resource",
        "Queue",
        "Watch",
        "Key",
        "Tables",
        "Definition",
        "Permission",
    ):
        raise ValueError(f"{kind} is a name in the operator's file already: give another one by --kind")
    version = installed_version("kcm")
    values = {
        "name": name,
        "module": module,
        "Kind": kind,
        "kind": singular,
        "KINDS": plural.upper(),
        "plural": plural,
        "group": group,
        "version": version,
        "wheel": f"./wheels/kcm-{version}-py3-none-any.whl",
    }
    return {_filled(path, values): _filled(text, values) for path, text in FILES.items()}


def _filled(text: str, values: Mapping[str, str]) -> str:
    """Replace {names}. The other braces of a text are its own."""
    return re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], found[0]), text)


def _matching(pattern: re.Pattern[str], example: str, text: str) -> str:
    if not pattern.fullmatch(text):
        raise argparse.ArgumentTypeError(f"must be like {example}: {text!r:.60}")
    return text


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="run-kcm new",
        description="Write a project: an operator in one file, its tests, a campaign of faults, a container file and "
        "a workflow for CI. Its tests pass, and run-kcm manifests and run-kcm dev run on it.",
    )
    parser.add_argument(
        "name", type=lambda text: _matching(_NAME, "website-operator", text), help="name of the operator"
    )
    parser.add_argument(
        "--kind",
        type=lambda text: _matching(_KIND, "Website", text),
        help="kind of its resource (default: from the name)",
    )
    parser.add_argument(
        "--group",
        type=lambda text: _matching(_GROUP, "example.com", text),
        default="example.com",
        help="API group of its resource (default %(default)s)",
    )
    parser.add_argument("--directory", type=Path, metavar="DIR", help="where to write it (default: NAME)")
    return parser
