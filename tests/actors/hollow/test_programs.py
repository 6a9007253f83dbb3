from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest

from kcm.actors.hollow.command_lines import run_of
from kcm.actors.hollow.programs import FOR_EVER, Run
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


def run(*words: str, restarts: int = 0, **container: Any) -> Run | None:
    return run_of({"name": "c", "command": list(words), **container}, POD, restarts)


def sh(script: str, **options: Any) -> Run | None:
    return run("sh", "-c", script, **options)


WORDS: list[tuple[Sequence[str], Run | None]] = [
    (["true"], Run(0)),
    (["/bin/true"], Run(0)),
    (["/usr/bin/false"], Run(0, 1)),
    (["sleep", "5"], Run(5)),
    (["/bin/sleep", "1.5m"], Run(90)),
    (["sleep", "1", "2"], Run(3)),
    (["sleep", "infinity"], FOR_EVER),
    (["sleep", "soon"], Run(0, 1)),
    (["sleep"], Run(0, 1)),
    (["sh", "-c", "exit 3"], Run(0, 3)),
    (["/bin/bash", "-c", "exit 3"], Run(0, 3)),
    (["/bin/sh", "-ec", "false; sleep 5"], Run(0, 1)),
    (["sh", "-c"], Run(0, 2)),
    (["sh", "-c", "exit 300"], Run(0, 44)),
    (["sh", "/script.sh"], None),
    (["sh"], Run(0)),
    (["cat"], Run(0)),
    (["timeout", "3", "sleep", "10"], Run(3, 124)),
    (["timeout", "3", "false"], Run(0, 1)),
    (["timeout", "30s", "sh", "-c", "while true; do sleep 1; done"], Run(30, 124)),
    (["env", "A=7", "sh", "-c", "exit $A"], Run(0, 7)),
    (["busybox", "sleep", "4"], Run(4)),
    (["tini", "--", "sleep", "4"], Run(4)),
    (["tail", "-f", "/dev/null"], FOR_EVER),
    (["cat", "/etc/hosts"], Run(0)),
    (["perl", "-Mbignum=bpi", "-wle", "print bpi(2000)"], Run(0)),
    (["/pause"], FOR_EVER),
    (["/agnhost", "netexec", "--http-port=8080"], FOR_EVER),
    (["/agnhost", "entrypoint-tester"], Run(0)),
    (["nginx", "-g", "daemon off;"], None),
    (["/app/server"], None),
]


@pytest.mark.parametrize("words, expected", WORDS)
def test_what_a_command_line_does(words: Sequence[str], expected: Run | None) -> None:
    assert run(*words) == expected


def test_arguments_follow_the_command_or_stand_for_it() -> None:
    assert run_of({"name": "c", "command": ["sleep"], "args": ["20"]}, POD, 0) == Run(20)
    assert run_of({"name": "c", "args": ["sh", "-c", "exit 3"]}, POD, 0) == Run(0, 3)
    assert run_of({"name": "c", "args": ["netexec"]}, POD, 0) is None
    assert run_of({"name": "c", "args": ["install"]}, POD, 0) is None
    assert run_of({"name": "c", "args": ["/usr/bin/install"]}, POD, 0) == Run(0)
    assert run_of({"name": "c"}, POD, 0) is None


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
def test_a_shell_that_an_image_brings_ends_at_once(image: str) -> None:
    assert run_of({"name": "c", "image": image}, POD, 0) == Run(0)


@pytest.mark.parametrize("image", ["nginx", "registry.k8s.io/pause:3.10", "busybox/web", "kubernetes-busybox", ""])
def test_what_other_images_run_is_not_known(image: str) -> None:
    assert run_of({"name": "c", "image": image}, POD, 0) is None


def test_arguments_of_an_image_without_an_entry_point_are_its_command_line() -> None:
    assert run_of({"name": "c", "image": "busybox", "args": ["id"]}, POD, 0) == Run(0)
    assert run_of({"name": "c", "image": "busybox", "args": ["httpd"]}, POD, 0) is None
    assert run_of({"name": "c", "image": "busybox", "command": ["sleep"], "args": ["7"]}, POD, 0) == Run(7)


def test_a_shell_that_may_be_typed_to_waits() -> None:
    assert run("sh", stdin=True) == FOR_EVER
    assert run("cat", stdin=True) == FOR_EVER
    assert run("sh", "-c", "exit 3", stdin=True) == Run(0, 3)
    assert run("sh", "-c", "echo exit 3 | sh") is None
    assert run_of({"name": "c", "image": "alpine", "stdin": True, "tty": True}, POD, 0) == FOR_EVER


SCRIPTS: list[tuple[str, Run | None]] = [
    ("", Run(0)),
    ("sleep 2; exit 7", Run(2, 7)),
    ("echo hello && sleep 2", Run(2)),
    ("sleep 1\nsleep 2\n", Run(3)),
    ("false", Run(0, 1)),
    ("false; true", Run(0)),
    ("false || exit 9", Run(0, 9)),
    ("false && exit 9", Run(0, 1)),
    ("true && false || sleep 4", Run(4)),
    ("! false", Run(0)),
    ("set -e; false; sleep 4", Run(0, 1)),
    ("set -e; false || true; sleep 4", Run(4)),
    ("# a comment\nexit 4 # another", Run(0, 4)),
    ("echo 'exit 1; ' \"exit 2\"; exit 5", Run(0, 5)),
    ("exec sleep 3; exit 1", Run(3)),
    ("if true; then exit 4; else exit 5; fi", Run(0, 4)),
    ("if [ 1 -gt 2 ]; then exit 4; elif [ a = a ]; then exit 5; fi", Run(0, 5)),
    ("if ! [ -f /none ]; then sleep 3; fi", Run(3)),
    ("for i in 1 2 3; do sleep $i; done", Run(6)),
    ("for i in $(seq 1 10); do sleep 1; done; exit 2", Run(10, 2)),
    ("for i in a b; do if [ $i = b ]; then break; fi; sleep 1; done", Run(1)),
    ("i=0; while [ $i -lt 4 ]; do sleep 2; i=$((i+1)); done; exit $i", Run(8, 4)),
    ("until nslookup db; do sleep 2; done", Run(0)),
    ("until false; do sleep 2; done", FOR_EVER),
    ("while true; do date; sleep 5; done", FOR_EVER),
    ("while :; do sleep 1; done", FOR_EVER),
    ("while true; do sleep 3; exit 6; done", Run(3, 6)),
    ("n=0; while true; do n=$((n+1)); sleep 1; done", FOR_EVER),
    ("(sleep 3; exit 2); exit 8", Run(3, 8)),
    ("{ sleep 3; }; exit 8", Run(3, 8)),
    ("trap 'exit 0' TERM; sleep infinity & wait", FOR_EVER),
    ("/bin/echo -n OK > /dev/termination-log; /bin/echo DONE; /bin/false", Run(0, 1)),
    ("echo out; echo err >&2; tail -f /dev/null", FOR_EVER),
    ("touch /tmp/x; if [[ -r /tmp/x ]]; then exit 3; fi", Run(0, 3)),
    ("touch /tmp/x; rm /tmp/x; [ -e /tmp/x ]", Run(0, 1)),
    ("sh -c 'exit 5'; exit $?", Run(0, 5)),
    ("exit ${CODE:-2}", Run(0, 2)),
    ("x=$(echo 4); exit $x", Run(0, 4)),
    ("exit `expr 2 + 3`", Run(0, 5)),
    ("cat /x | grep -q y && sleep 1", Run(1)),
    ("make me a sandwich", None),
    ("sleep 5; ./server", None),
    ("case $x in a) exit 1;; esac", None),
    ("f() { sleep 1; }; f", None),
    ("exit 'unclosed", None),
    ("if true; then", None),
    ("done", None),
    ("echo $(( 1 / 0 ))", Run(0, 1)),
    ("echo $(( 2 ** 999999999 ))", None),
]


@pytest.mark.parametrize("script, expected", SCRIPTS)
def test_what_a_script_does(script: str, expected: Run | None) -> None:
    assert sh(script) == expected


@pytest.mark.parametrize(
    "script",
    [
        "(" * 5000,
        "$(" * 2000,
        "if " * 2000,
        "exit $((" + "(" * 3000,
        "while :; do sh -c 'n=0; while :; do n=$((n+1)); done'; done",
        "for a in $(seq 5000); do for b in $(seq 5000); do : ; done; done",
        "for a in $(seq 5000); do for b in $(seq 5000); do\n done; done",
        "x=1; while true; do x=$x$x; done",
    ],
)
def test_no_script_keeps_the_kubelet_busy(script: str) -> None:
    began = time.perf_counter()
    assert sh(script) in (None, FOR_EVER)
    assert time.perf_counter() - began < 5.0


def test_variables_are_those_of_the_container() -> None:
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
    assert sh("exit $CODE", env=env) == Run(0, 6)
    assert sh("exit ${MORE}", env=env) == Run(0, 61)
    assert sh("exit $INDEX", env=env) == Run(0, 3)
    assert sh('[ "$NODE" = n1 ] && exit 9', env=env) == Run(0, 9)
    assert run("sleep", "$(CODE)", env=env) == Run(6)
    assert sh("exit $NONE", env=env) == Run(0, 0)


# What upstream's e2e suite has Jobs do (test/e2e/framework/job).

FAIL_ODD = "if [ $(expr ${JOB_COMPLETION_INDEX} % 2) -ne 0 ]; then\n exit 1\nelse\n exit 0\nfi\n"
FAIL_ONCE = "if [[ -r /data/foo ]]\nthen\n exit 0\nelse\n touch /data/foo\n exit 1\nfi\n"


@pytest.mark.parametrize("index, code", [("2", 0), ("3", 1)])
def test_every_other_index_fails(index: str, code: int) -> None:
    assert sh(FAIL_ODD, env=[{"name": "JOB_COMPLETION_INDEX", "value": index}]) == Run(0, code)


def test_a_file_on_a_volume_outlives_a_restart_and_another_does_not() -> None:
    volume = [{"name": "data", "mountPath": "/data"}]
    assert [sh(FAIL_ONCE, restarts=restarts, volumeMounts=volume) for restarts in (0, 1, 2, 99)] == [
        Run(0, 1),
        Run(0),
        Run(0),
        Run(0),
    ]
    assert sh(FAIL_ONCE, restarts=1) == Run(0, 1)


def test_random_numbers_are_the_same_for_the_same_run_of_a_container() -> None:
    codes = [sh("exit $(( $RANDOM / 16384 ))", restarts=restarts) for restarts in range(40)]
    assert set(codes) == {Run(0, 0), Run(0, 1)}
    assert codes == [sh("exit $(( $RANDOM / 16384 ))", restarts=restarts) for restarts in range(40)]
