from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest

from kcm.actors.hollow.kubelet.commands import ENDLESS, CommandResult, result_of
from kcm.protocols.objects import Object

POD: Object = {
    "metadata": {
        "name": "web",
        "namespace": "default",
        "uid": "uid-1",
        "annotations": {"batch.kubernetes.io/job-completion-index": "3"},
        "labels": {"app": "shop"},
    },
    "spec": {"nodeName": "n1"},
}


def run(*words: str, restarts: int = 0, **container: Any) -> CommandResult | None:
    return result_of({"name": "c", "command": list(words), **container}, POD, restarts)


def sh(script: str, **options: Any) -> CommandResult | None:
    return run("sh", "-c", script, **options)


WORDS: list[tuple[Sequence[str], CommandResult | None]] = [
    (["true"], CommandResult(0)),
    (["/bin/true"], CommandResult(0)),
    (["/usr/bin/false"], CommandResult(0, 1)),
    (["sleep", "5"], CommandResult(5)),
    (["/bin/sleep", "1.5m"], CommandResult(90)),
    (["sleep", "1", "2"], CommandResult(3)),
    (["sleep", "infinity"], ENDLESS),
    (["sleep", "soon"], CommandResult(0, 1)),
    (["sleep"], CommandResult(0, 1)),
    (["sh", "-c", "exit 3"], CommandResult(0, 3)),
    (["/bin/bash", "-c", "exit 3"], CommandResult(0, 3)),
    (["sh", "-c", "exit 300"], CommandResult(0, 44)),
    (["sh", "/script.sh"], None),
    (["sh"], CommandResult(0)),
    (["tail", "-f", "/dev/null"], ENDLESS),
    (["cat", "/etc/hosts"], CommandResult(0)),
    (["/pause"], ENDLESS),
    (["/agnhost", "netexec", "--http-port=8080"], ENDLESS),
    (["/agnhost", "entrypoint-tester"], CommandResult(0)),
    (["nginx", "-g", "daemon off;"], None),
    (["/app/server"], None),
    (["/bin/sh", "-ec", "false; sleep 5"], None),
    (["sh", "-c"], None),
    (["timeout", "3", "sleep", "10"], None),
    (["perl", "-wle", "print 1"], None),
]


@pytest.mark.parametrize("words, expected", WORDS)
def test_command_line_has_this_result(words: Sequence[str], expected: CommandResult | None) -> None:
    assert run(*words) == expected


def test_arguments_follow_the_command_or_are_the_command_line() -> None:
    assert result_of({"name": "c", "command": ["sleep"], "args": ["20"]}, POD, 0) == CommandResult(20)
    assert result_of({"name": "c", "args": ["sh", "-c", "exit 3"]}, POD, 0) == CommandResult(0, 3)
    assert result_of({"name": "c", "args": ["netexec"]}, POD, 0) is None
    assert result_of({"name": "c", "args": ["install"]}, POD, 0) is None
    assert result_of({"name": "c", "args": ["/usr/bin/install"]}, POD, 0) == CommandResult(0)
    assert result_of({"name": "c"}, POD, 0) is None


@pytest.mark.parametrize(
    "image",
    [
        "busybox",
        "alpine:3.22",
        "registry:5000/e2e/busybox:1.37.0-1",
        "docker.io/library/debian@sha256:0123",
        "hello-world",
    ],
)
def test_image_with_a_shell_ends_at_once(image: str) -> None:
    assert result_of({"name": "c", "image": image}, POD, 0) == CommandResult(0)


@pytest.mark.parametrize("image", ["nginx", "registry.k8s.io/pause:3.10", "busybox/web", "kubernetes-busybox", ""])
def test_result_of_other_images_is_unknown(image: str) -> None:
    assert result_of({"name": "c", "image": image}, POD, 0) is None


def test_arguments_of_an_image_without_entry_point_are_the_command_line() -> None:
    assert result_of({"name": "c", "image": "busybox", "args": ["id"]}, POD, 0) == CommandResult(0)
    assert result_of({"name": "c", "image": "busybox", "args": ["httpd"]}, POD, 0) is None
    assert result_of({"name": "c", "image": "busybox", "command": ["sleep"], "args": ["7"]}, POD, 0) == CommandResult(7)


def test_shell_with_stdin_waits_for_input() -> None:
    assert run("sh", stdin=True) == ENDLESS
    assert run("sh", "-c", "exit 3", stdin=True) == CommandResult(0, 3)
    assert run("sh", "-c", "echo exit 3 | sh") is None
    assert result_of({"name": "c", "image": "alpine", "stdin": True, "tty": True}, POD, 0) == ENDLESS


SCRIPTS: list[tuple[str, CommandResult | None]] = [
    ("", CommandResult(0)),
    ("sleep 2; exit 7", CommandResult(2, 7)),
    ("echo hello && sleep 2", CommandResult(2)),
    ("echo hello &&\nsleep 2", CommandResult(2)),
    ("sleep 1\nsleep 2\n", CommandResult(3)),
    ("false", CommandResult(0, 1)),
    ("false; true", CommandResult(0)),
    ("false; exit", CommandResult(0, 1)),
    ("false || exit 9", CommandResult(0, 9)),
    ("false && exit 9", CommandResult(0, 1)),
    ("true && false || sleep 4", CommandResult(4)),
    ("# a comment\nexit 4", CommandResult(0, 4)),
    ("echo 'exit 1; ' \"exit 2\"; exit 5", CommandResult(0, 5)),
    ("if true; then exit 4; else exit 5; fi", CommandResult(0, 4)),
    ("if false; then exit 4; fi; sleep 2", CommandResult(2)),
    ("if false; then sleep 4; fi", CommandResult(0)),
    ("if [ 1 -eq 2 ]; then exit 4; elif [ a = a ]; then exit 5; fi", CommandResult(0, 5)),
    ("if true; then if false; then exit 1; else sleep 1; fi; else exit 2; fi", CommandResult(1)),
    ("while true; do date; sleep 5; done", ENDLESS),
    ("while :; do sleep 1; done", ENDLESS),
    ("exit 3; while true; do sleep 1; done", CommandResult(0, 3)),
    ("while true; do sleep 3; exit 6; done", None),
    ("until nslookup db; do sleep 2; done", None),
    ("for i in 1 2 3; do sleep $i; done", None),
    ("/bin/echo -n OK > /dev/termination-log; /bin/echo DONE; /bin/false", CommandResult(0, 1)),
    ("echo out; echo err >&2; tail -f /dev/null", ENDLESS),
    ("touch /tmp/x; if [[ -r /tmp/x ]]; then exit 3; fi", CommandResult(0, 3)),
    ("touch /tmp/x; rm /tmp/x; [ -e /tmp/x ]", CommandResult(0, 1)),
    ("[ 3 -gt 2 ]", None),
    ("cat /x | grep -q y && sleep 1", None),
    ("make me a sandwich", None),
    ("sleep 5; ./server", None),
    ("case $x in a) exit 1;; esac", None),
    ("f() { sleep 1; }; f", None),
    ("(sleep 3; exit 2)", None),
    ("sleep infinity & wait", None),
    ("x=4; exit $x", None),
    ("exit ${CODE:-2}", None),
    ("exit $(( $RANDOM / 16384 ))", None),
    ("exit 'unclosed", None),
    ("if true; then", None),
    ("done", None),
    ("fi", None),
]


@pytest.mark.parametrize("script, expected", SCRIPTS)
def test_script_has_this_result(script: str, expected: CommandResult | None) -> None:
    assert sh(script) == expected


@pytest.mark.parametrize("script", ["(" * 5000, "$(" * 2000, "if " * 2000, "if true; then " * 2000, "exit 1;" * 5000])
def test_long_or_nested_script_is_unknown_at_once(script: str) -> None:
    began = time.perf_counter()
    assert sh(script) is None
    assert time.perf_counter() - began < 5.0


def test_variables_of_the_container_are_expanded() -> None:
    env = [
        {"name": "CODE", "value": "6"},
        {"name": "MORE", "value": "$(CODE)1"},
        {
            "name": "INDEX",
            "valueFrom": {
                "fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}
            },
        },
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    ]
    assert sh("exit $CODE", env=env) == CommandResult(0, 6)
    assert sh("exit ${MORE}", env=env) == CommandResult(0, 61)
    assert sh("exit $INDEX", env=env) == CommandResult(0, 3)
    assert sh('[ "$NODE" = n1 ] && exit 9', env=env) == CommandResult(0, 9)
    assert run("sleep", "$(CODE)", env=env) == CommandResult(6)
    assert sh("exit $NONE", env=env) == CommandResult(0, 0)
    assert sh("exit $QUOTED", env=[{"name": "QUOTED", "value": "1; exit 2"}]) is None


# Scripts of Jobs in upstream's e2e suite (test/e2e/framework/job/fixtures.go).

FAIL_ODD = "if [ $(expr ${JOB_COMPLETION_INDEX} % 2) -ne 0 ]; then\n exit 1\nelse\n exit 0\nfi\n"
FAIL_ONCE = "if [[ -r /data/foo ]]\nthen\n exit 0\nelse\n touch /data/foo\n exit 1\nfi\n"


@pytest.mark.parametrize("index, code", [("2", 0), ("3", 1)])
def test_odd_completion_indexes_fail(index: str, code: int) -> None:
    assert sh(FAIL_ODD, env=[{"name": "JOB_COMPLETION_INDEX", "value": index}]) == CommandResult(0, code)


def test_only_files_on_volumes_outlive_a_restart() -> None:
    volume = [{"name": "data", "mountPath": "/data"}]
    assert [sh(FAIL_ONCE, restarts=restarts, volumeMounts=volume) for restarts in (0, 1, 2, 99)] == [
        CommandResult(0, 1),
        CommandResult(0),
        CommandResult(0),
        CommandResult(0),
    ]
    assert sh(FAIL_ONCE, restarts=1) == CommandResult(0, 1)
