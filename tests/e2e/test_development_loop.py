"""`run-kcm dev`: the code of an operator is replaced while it runs, and its tables stay."""

from __future__ import annotations

import re
import signal
import sys
import urllib.error
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcm.runtime.apiserver.process.launch import EmbeddedServer, launch
from kcm.runtime.apiserver.process.settings import ServerSettings
from tests.e2e.kubectl import Api
from tests.e2e.programs import Program, ending, free_port, spawn, until

OPERATOR = """
from dataclasses import dataclass

from greeting import GREETING
from kcm import ControllerSpec, Queue, Resource, Watch
from kcm.manifests import Definition, Permission
from kcm.objects import ObjectMeta
from kcm.specs import itself
from kcm.steps import patch_status


@dataclass(frozen=True)
class Spec:
    name: str


@dataclass(frozen=True)
class Status:
    text: str = ""


@dataclass(frozen=True)
class Greeting:
    metadata: ObjectMeta
    spec: Spec
    status: Status = Status()


GREETINGS = Resource(group="example.com", version="v1", plural="greetings", kind="Greeting", model=Greeting)
OTHERS = Resource(version="v1", plural="configmaps", kind="ConfigMap")


class Greeter:
    def __init__(self, tables):
        self._greetings = tables[GREETINGS]

    def reconcile(self, key):
        greeting = self._greetings.get(key)
        if greeting is not None:
            yield from patch_status(self._greetings, greeting, {"text": f"{GREETING} {greeting.spec.name}"})


class Idle:
    def reconcile(self, key):
        return None
        yield


GREETER = ControllerSpec(
    name="greeter",
    queues=(Queue(watches=(Watch(GREETINGS, to=itself),)),),
    build=lambda context: Greeter(context.tables),
    permissions=(Permission(GREETINGS, ("patch",), "status"),),
    definitions=(Definition(GREETINGS),),
)
SPECS = (GREETER,)
"""
COLLECTION = "/apis/example.com/v1/namespaces/default/greetings"
SERIES = re.compile(r"(apiserver_request_total|apiserver_longrunning_requests)\{(.*)\} (\S+)")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "operator_of_greetings.py").write_text(OPERATOR)
    (folder / "greeting.py").write_text('GREETING = "hello"\n')
    return folder


@pytest.fixture
def development(project: Path, tmp_path: Path) -> Iterator[Program]:
    file = project / "operator_of_greetings.py"
    command = [sys.executable, "-P", "-m", "kcm.actors.command", "dev", f"{file}:SPECS"]
    with ending(spawn(command, tmp_path / "dev.log")) as program:
        until(lambda: "running greeter" in program.text(), "it runs", why=program.text)
        yield program


def kubeconfig_of(program: Program) -> Path:
    found = re.search(r"export KUBECONFIG=(\S+)", program.text())
    assert found is not None
    return Path(found[1])


def lists_and_watches(api: Api) -> dict[str, float]:
    """Return the numbers of lists and watches of greetings: those that have ended, and those under way."""
    with api.open("GET", "/metrics") as page:
        text = page.read().decode()
    found: dict[str, float] = {}
    for name, labels, number in SERIES.findall(text):
        if 'resource="greetings"' in labels:
            for verb in ("LIST", "WATCH"):
                if f'verb="{verb}"' in labels:
                    found[f"{name} {verb}"] = found.get(f"{name} {verb}", 0.0) + float(number)
    return found


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    running = launch(ServerSettings(directory=tmp_path / "server"))
    yield running
    running.stop()


@pytest.mark.e2e
def test_a_given_cluster_gets_definitions_only_on_request(
    project: Path, server: EmbeddedServer, tmp_path: Path
) -> None:
    api, definitions = Api(server.kubeconfig), "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    command = [sys.executable, "-P", "-m", "kcm.actors.command", "dev", f"{project / 'operator_of_greetings.py'}:SPECS"]
    command.append(f"--kubeconfig={server.kubeconfig}")
    with ending(spawn(command, tmp_path / "first.log")) as program:
        until(lambda: "greetings.example.com" in program.text(), "it misses the definition", why=program.text)
        assert api.get(definitions)["items"] == []
        assert "export KUBECONFIG" not in program.text(), "it starts no cluster of its own"
    with ending(spawn([*command, "--apply"], tmp_path / "second.log")) as program:
        until(lambda: "running greeter" in program.text(), "it runs", why=program.text)
        assert "applied customresourcedefinition/greetings.example.com" in program.text()
        greeting = {"apiVersion": "example.com/v1", "kind": "Greeting", "metadata": {"name": "a"}}
        api.request("POST", COLLECTION, {**greeting, "spec": {"name": "anna"}})

        def text() -> str:
            return str(api.get(f"{COLLECTION}/a").get("status", {}).get("text"))

        until(lambda: text() == "hello anna", "it is greeted", why=program.text)
        (project / "greeting.py").write_text('GREETING = "good evening"\n')
        until(lambda: text() == "good evening anna", "it is greeted by new code", why=program.text)
        managers = {entry["manager"] for entry in api.get(f"{COLLECTION}/a")["metadata"]["managedFields"]}
        assert "kcm-dev" in managers
    assert api.get(f"{COLLECTION}/a")["status"]["text"] == "good evening anna", "the cluster remains"
    assert "greetings.example.com" in [each["metadata"]["name"] for each in api.get(definitions)["items"]]


@pytest.mark.e2e
def test_webhooks_are_served_by_the_code_that_was_edited_last(project: Path, tmp_path: Path) -> None:
    file = project / "operator_of_greetings.py"
    file.write_text(
        OPERATOR.replace("import GREETING\n", "import GREETING, check\n")
        .replace("from kcm import ControllerSpec", "from kcm import validate, ControllerSpec")
        .replace("    definitions=", "    admission=(validate(GREETINGS, check),),\n    definitions=")
    )
    words = """
from kcm.webhooks import Denied

GREETING = "hello"

def check(request):
    if request.new.spec.name == "nobody":
        raise Denied(f"{GREETING} to whom?")
"""
    (project / "greeting.py").write_text(words)
    command = [sys.executable, "-P", "-m", "kcm.actors.command", "dev", f"{file}:SPECS"]
    with ending(spawn([*command, "--", f"--webhook-port={free_port()}"], tmp_path / "dev.log")) as program:
        until(lambda: "running greeter" in program.text(), "it runs", why=program.text)
        api = Api(kubeconfig_of(program))

        def answer() -> str:
            greeting = {"apiVersion": "example.com/v1", "kind": "Greeting", "spec": {"name": "nobody"}}
            try:
                api.request("POST", f"{COLLECTION}?dryRun=All", {**greeting, "metadata": {"name": "a"}})
            except urllib.error.HTTPError as err:
                return err.read().decode()
            return ""

        until(lambda: "hello to whom?" in answer(), "it is refused", why=program.text)
        (project / "greeting.py").write_text(words.replace("hello", "good evening"))
        until(lambda: "good evening to whom?" in answer(), "it is refused by new code", why=program.text)


@pytest.mark.e2e
def test_an_edited_file_takes_effect_without_another_list(project: Path, development: Program) -> None:
    api = Api(kubeconfig_of(development))

    def text() -> str:
        return str(api.get(f"{COLLECTION}/a").get("status", {}).get("text"))

    api.request(
        "POST",
        COLLECTION,
        {"apiVersion": "example.com/v1", "kind": "Greeting", "metadata": {"name": "a"}, "spec": {"name": "anna"}},
    )
    until(lambda: text() == "hello anna", "it is greeted", why=development.text)
    before = lists_and_watches(api)
    assert before["apiserver_longrunning_requests WATCH"] == 1

    (project / "greeting.py").write_text('GREETING = "good evening"\n')
    until(lambda: text() == "good evening anna", "it is greeted by new code", why=development.text)
    assert "greeting changed: restarted greeter" in development.text()
    assert lists_and_watches(api) == before

    (project / "greeting.py").write_text('GREETING = "never\n')
    until(lambda: "SyntaxError" in development.text(), "the error is shown", why=development.text)
    assert "greeting changed, and the code before the change still runs" in development.text()
    api.request("PATCH", f"{COLLECTION}/a", {"spec": {"name": "ben"}}, type="application/merge-patch+json")
    until(lambda: text() == "good evening ben", "the code before the change still runs", why=development.text)

    (project / "greeting.py").write_text('GREETING = "hi"\n')
    until(lambda: text() == "hi ben", "the corrected code runs", why=development.text)
    assert lists_and_watches(api) == before

    file = project / "operator_of_greetings.py"
    file.write_text(
        OPERATOR.replace(
            "if greeting is not None:",
            'if greeting.spec.name == "ben":\n            raise RuntimeError("no ben")\n        if greeting:',
        )
    )
    until(lambda: "RuntimeError: no ben" in development.text(), "the traceback is shown", why=development.text)
    assert 'raise RuntimeError("no ben")' in development.text()

    more = "Queue(watches=(Watch(GREETINGS, to=itself), Watch(OTHERS, to=itself)))"
    file.write_text(
        OPERATOR.replace("Queue(watches=(Watch(GREETINGS, to=itself),))", more).replace("{GREETING} ", "{GREETING}, ")
    )
    until(lambda: text() == "hi, ben", "a new watch needs a new start", why=development.text)

    directory = kubeconfig_of(development).parent
    development.process.send_signal(signal.SIGINT)
    assert development.process.wait(timeout=30) == 0
    assert not directory.exists(), "the cluster of the loop is removed, with its keys"
    assert "with watches, settings or webhooks: all controllers start again" in development.text()
