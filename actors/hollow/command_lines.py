"""How a container's command line goes: from its spec, its image, its pod and how often it was restarted.

The environment has the literal values of `env` and its references to the pod's metadata; what ConfigMaps and Secrets
bring is not known. Files last as long as their container, on volumes as long as the pod.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Any

from kcm.actors.hollow.image_commands import command_of
from kcm.actors.hollow.programs import FOR_EVER, SHELLS, EndlessError, Machine, Run, UnknownProgramError, execute
from kcm.actors.hollow.shell import run_script
from kcm.protocols.bounded_cache import bounded_cache, total_size
from kcm.protocols.objects import Object, annotations_of, labels_of, metadata, uid_of

# Words that hardly any image takes for a subcommand of its own.
COMMANDS = {"cat", "date", "echo", "env", "false", "ls", "pause", "perl", "sleep", "tail", "timeout", "true", "yes"}
MOST_RUNS = 10  # runs of a container that are gone through to learn what they left on its volumes
_OF_A_SHELL = {"-", "-i", "-l", "--login"}
_REFERENCE = re.compile(r"\$\(([A-Za-z_][\w.-]*)\)")
_KEYED = re.compile(r"metadata\.(annotations|labels)\['(.+)'\]")


def run_of(container: Mapping[str, Any], pod: Object, restarts: int) -> Run | None:
    """None where it cannot be told: there is no command line, or one that is not known."""
    words = _words(container)
    if not words:
        return None
    if _reads_input(words):
        return FOR_EVER if container.get("stdin") else Run(0.0)  # nobody types here
    with_environ = any("$" in word for word in words) or "env" in words
    environ = _environ(container, pod) if with_environ else {}
    if with_environ:
        words = tuple(_REFERENCE.sub(lambda found: environ.get(found[1], found[0]), word) for word in words)
    seed = uid_of(pod) if any("RANDOM" in word for word in words) else ""
    volumes = tuple(one["mountPath"].rstrip("/") + "/" for one in container.get("volumeMounts") or ())
    return _run(words, tuple(environ.items()), volumes, restarts if seed or volumes else 0, seed)


def _words(container: Mapping[str, Any]) -> tuple[str, ...]:
    """Empty where the image says what is run, and that is not known."""
    command, arguments = container.get("command") or (), container.get("args") or ()
    if command:
        return (*command, *arguments)
    own = command_of(container.get("image") or "")
    if own is not None:
        return tuple(arguments or own)
    return tuple(arguments) if arguments and _is_command(arguments[0]) else ()


def _reads_input(words: Sequence[str]) -> bool:
    """Whether it ends when its standard input does: a shell without a script, as most base images bring it."""
    name = posixpath.basename(words[0])
    return (name in SHELLS and all(word in _OF_A_SHELL for word in words[1:])) or (name == "cat" and len(words) == 1)


def _is_command(word: str) -> bool:
    """Whether what follows an image's entry point, which is not known, stands for a command."""
    return "/" in word or word in SHELLS or word in COMMANDS


@bounded_cache(4096, longest=4096, size=total_size)
def _run(
    words: Sequence[str], environ: Sequence[tuple[str, str]], volumes: tuple[str, ...], restarts: int, seed: str
) -> Run | None:
    kept: set[str] = set()
    result: Run | None = None
    earlier = range(min(restarts, MOST_RUNS))
    for number in (*earlier, restarts):
        machine = Machine(environ=dict(environ), files=set(kept), seed=f"{seed}/{number}")
        result = _one_run(words, machine)
        left = {file for file in machine.files if file.startswith(volumes)} if volumes else set()
        if left == kept and not machine.draws:
            break  # all later runs are alike
        kept = left
    return result


def _one_run(words: Sequence[str], machine: Machine) -> Run | None:
    try:
        code = execute(words, machine, run_script)
    except UnknownProgramError:
        return None
    except EndlessError:
        return FOR_EVER
    return Run(machine.seconds, code & 255)


def _environ(container: Mapping[str, Any], pod: Object) -> dict[str, str]:
    environ: dict[str, str] = {}
    for one in container.get("env") or ():
        path = ((one.get("valueFrom") or {}).get("fieldRef") or {}).get("fieldPath")
        value = one.get("value") or "" if path is None else _field(pod, path)
        if value is not None:
            environ[one["name"]] = _REFERENCE.sub(lambda found: environ.get(found[1], found[0]), value)
    return environ


def _field(pod: Object, path: str) -> str | None:
    keyed = _KEYED.fullmatch(path)
    if keyed is not None:
        return (annotations_of(pod) if keyed[1] == "annotations" else labels_of(pod)).get(keyed[2], "")
    known = {
        "metadata.name": metadata(pod).get("name"),
        "metadata.namespace": metadata(pod).get("namespace"),
        "metadata.uid": metadata(pod).get("uid"),
        "spec.nodeName": pod["spec"].get("nodeName"),
        "spec.serviceAccountName": pod["spec"].get("serviceAccountName"),
    }
    return known.get(path)
