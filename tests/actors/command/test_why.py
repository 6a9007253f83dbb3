"""`run-kcm why`: arguments, forms of the output, exit codes, and the way without a manager."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from kcm.actors.command import why
from kcm.actors.command.manager_client import ManagerError
from kcm.actors.explanation.cause import Cause, Explanation, Verdict
from kcm.runtime.client.config import ConfigError

CAUSE = Cause(
    code="image-pull",
    about="pod shop/web-1",
    summary="it cannot pull its image",
    evidence=("ErrImagePull",),
    since=940.0,
    next_attempt=1030.0,
    commands=("kubectl describe pod web-1 -n shop",),
)


def explanation(verdict: Verdict = "stuck", *causes: Cause) -> Explanation:
    summary = causes[0].summary if causes else "it is in its desired state"
    return Explanation(
        kind="Pod", key="shop/web-1", about="pod shop/web-1", at=1000.0, verdict=verdict, summary=summary, causes=causes
    )


class FakeManager:
    """Manager with one response, which keeps the requests."""

    def __init__(self, answer: Explanation | ManagerError) -> None:
        self.answer, self.asked = answer, list[Mapping[str, str]]()

    def get(self, path: str, query: Mapping[str, str]) -> Any:
        assert path == "/why"
        self.asked.append(query)
        if isinstance(self.answer, ManagerError):
            raise self.answer
        return msgspec.to_builtins(self.answer)

    @contextmanager
    def open(self, _arguments: object) -> Iterator[FakeManager]:
        yield self


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeManager:
    fake = FakeManager(explanation("stuck", CAUSE))
    monkeypatch.setattr(why, "open_manager", fake.open)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    return fake


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        (["deploy", "shop/web"], ("deploy", "shop", "web")),
        (["deploy/web", "-n", "shop"], ("deploy", "shop", "web")),
        (["deploy", "web", "--namespace=shop"], ("deploy", "shop", "web")),
        (["node", "n1"], ("node", "default", "n1")),
        (["deployments.apps/web"], ("deployments.apps", "default", "web")),
    ],
)
def test_object_is_named_as_in_kubectl(manager: FakeManager, arguments: list[str], asked: tuple[str, str, str]) -> None:
    why.main(arguments)
    assert manager.asked == [dict(zip(("kind", "namespace", "name"), asked, strict=True))]


def test_cluster_of_several_is_part_of_the_question(manager: FakeManager) -> None:
    why.main(["configmap", "shop/web", "--cluster=edge"])
    assert manager.asked == [{"kind": "configmap", "namespace": "shop", "name": "web", "cluster": "edge"}]


def test_missing_choice_of_a_cluster_is_malformed(manager: FakeManager, capsys: pytest.CaptureFixture[str]) -> None:
    manager.answer = ManagerError("cluster: the manager works on edge, hub; name the one of the object", status=400)
    assert why.main(["configmap", "shop/web"]) == why.MALFORMED
    assert capsys.readouterr().err == "Error: cluster: the manager works on edge, hub; name the one of the object\n"


def test_namespace_is_that_of_the_kubeconfig(
    manager: FakeManager, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = {"current-context": "x", "contexts": [{"name": "x", "context": {"namespace": "shop"}}]}
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    why.main(["pod/web-1"])
    assert manager.asked[0]["namespace"] == "shop"


@pytest.mark.parametrize(
    "arguments", [["pod"], ["a", "b", "c"], ["pod/"], ["pod", "a%b"], ["pod", "Shop/web"], ["po d", "web"]]
)
@pytest.mark.usefixtures("manager")
def test_malformed_question_is_an_error(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert why.main(arguments) == why.MALFORMED
    assert capsys.readouterr().err.startswith("Error: ")


@pytest.mark.usefixtures("manager")
def test_text_has_cause_evidence_times_and_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert why.main(["pod", "shop/web-1"]) == why.STUCK
    assert capsys.readouterr().out == (
        "pod shop/web-1: stuck: it cannot pull its image\n"
        "\n"
        "1. pod shop/web-1: it cannot pull its image  [image-pull]\n"
        "   for 60s, next attempt in 30s\n"
        "   - ErrImagePull\n"
        "   $ kubectl describe pod web-1 -n shop\n"
    )


@pytest.mark.usefixtures("manager")
def test_json_and_yaml_have_the_same_content(capsys: pytest.CaptureFixture[str]) -> None:
    why.main(["pod", "shop/web-1", "-o", "json"])
    as_json = json.loads(capsys.readouterr().out)
    why.main(["pod", "shop/web-1", "-o", "yaml"])
    assert yaml.safe_load(capsys.readouterr().out) == as_json
    assert as_json["causes"][0]["code"] == "image-pull"


def test_healthy_object_has_exit_code_0(manager: FakeManager, capsys: pytest.CaptureFixture[str]) -> None:
    manager.answer = explanation("nothing is wrong")
    assert why.main(["pod", "shop/web-1"]) == why.FINE
    assert capsys.readouterr().out == "pod shop/web-1: nothing is wrong\n"


@pytest.mark.parametrize(
    ("verdict", "code"), [("under way", 0), ("stuck", 1), ("not found", 1), ("unknown", 3)], ids=str
)
def test_exit_code_follows_from_the_verdict(manager: FakeManager, verdict: Verdict, code: int) -> None:
    manager.answer = explanation(verdict)
    assert why.main(["pod", "shop/web-1"]) == code


def test_unknown_kind_of_the_manager_is_malformed(manager: FakeManager, capsys: pytest.CaptureFixture[str]) -> None:
    manager.answer = ManagerError("kind: the API server serves no kind 'fable'", status=404)
    assert why.main(["fable", "a"]) == why.MALFORMED
    assert "serves no kind" in capsys.readouterr().err


def test_objects_alone_are_explained_if_no_manager_responds(
    manager: FakeManager, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    manager.answer = ManagerError("connection refused")
    monkeypatch.setattr(why, "_from_objects", lambda *_: explanation("stuck", CAUSE))
    assert why.main(["pod", "shop/web-1"]) == why.STUCK
    note = "Note: no manager could be asked, so this is from the API server's objects alone: connection refused\n"
    assert capsys.readouterr().out.endswith(note)


def test_error_names_both_if_neither_can_be_asked(
    manager: FakeManager, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> Explanation:
        raise ConfigError("no such file")

    manager.answer = ManagerError("connection refused")
    monkeypatch.setattr(why, "_from_objects", fail)
    assert why.main(["pod", "shop/web-1"]) == why.UNREACHABLE
    assert capsys.readouterr().err == "Error: no manager: connection refused; no API server: no such file\n"
