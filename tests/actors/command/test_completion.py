"""Scripts of run-kcm completion, in the shells that are installed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping
from functools import cache

import pytest

from kcm.actors.command.completion import SHELLS, places, script

BASH = """{script}
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}}-1)); compopt() {{ :; }}
_run_kcm; printf '%s\\n' "${{COMPREPLY[@]}}" """
ZSH = """compdef() {{ :; }}; _files() {{ print files; }}; compset() {{ :; }}
compadd() {{ while [[ $1 != -- ]]; do shift; done; shift; print -l -- $@; }}
{script}
words=({words}); CURRENT=$#words; _run_kcm"""
FISH = """{script}
complete -C '{line}'"""


def completed(shell: str, line: str) -> list[str]:
    """Return what the shell offers for the last word of a line that begins with it."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    words = line.split(" ")
    if shell == "bash":  # which splits words at "="
        words = [part for word in words for part in word.replace("=", " = ").split(" ")]
    quoted = " ".join(f"'{word}'" for word in words)
    template: Mapping[str, str] = {"bash": BASH, "zsh": ZSH, "fish": FISH}
    text = template[shell].format(script=script_for(shell), words=quoted, line=line)
    options = {"bash": ["--norc", "-c"], "zsh": ["-f", "-c"], "fish": ["--no-config", "-c"]}[shell]
    done = subprocess.run([shell, *options, text], capture_output=True, text=True, timeout=30, check=True)
    last = words[-1]
    offered = (found.partition("\t")[0] for found in done.stdout.split("\n") if found)
    if "=" in last and shell == "fish":
        return sorted(found.partition("=")[2] for found in offered)
    return sorted(found for found in offered if found.startswith(last.rpartition("=")[2]))


@cache
def script_for(shell: str) -> str:
    return script(shell, places())


@pytest.mark.parametrize(
    "shell", ["bash", *(pytest.param(shell, marks=pytest.mark.slow) for shell in SHELLS if shell != "bash")]
)
def test_words_are_completed(shell: str) -> None:
    offered: Callable[[str], list[str]] = lambda line: completed(shell, line)  # noqa: E731
    assert {"apiserver", "completion", "ctl", "top", "wait", "why"} <= set(offered("run-kcm "))
    assert offered("run-kcm c") == ["completion", "ctl"]
    assert offered("run-kcm ctl re") == ["restart", "resume"]
    assert offered("run-kcm ctl pause job-") == ["job-controller"]
    assert offered("run-kcm ctl pause job-controller deployment-") == ["deployment-controller"]
    assert offered("run-kcm ctl list -o ") == ["json", "name", "wide", "yaml"]
    assert offered("run-kcm ctl list --output=j") == ["json"]
    assert offered("run-kcm ctl list --wat") == ["--watch"]
    assert offered("run-kcm ctl rate ") == ["client", "zone"]
    assert offered("run-kcm ctl brake e") == ["engage"]
    assert offered("run-kcm --kube-api-q") == ["--kube-api-qps="]
    assert offered("run-kcm --controllers=-job-") == ["-job-controller"]
    assert offered("run-kcm completion f") == ["fish"]
    assert offered("run-kcm why deplo") == ["deployment"]
    assert offered("run-kcm why pod default/web --clu") == ["--cluster"]
    assert offered("run-kcm why -o ") == ["json", "text", "yaml"]
    assert offered("run-kcm apiserver --service-cl") == ["--service-cluster-ip-range="]


def test_all_flags_and_subcommands_are_known() -> None:
    found = places()
    assert {"--controllers=", "--storm-brake-limit=", "--leader-elect", "--embedded-dir="} <= set(found[""].flags)
    assert "--google-json-key=" not in found[""].flags, "retired flags are left out"
    assert {"ctl", "ctl pause", "ctl zones", "snapshot save", "journal show"} <= found.keys()
    assert {"--server", "--token", "--timeout"} <= set(found["ctl drain"].flags)
    assert {"--server", "--namespace", "--cluster", "--output"} <= set(found["why"].flags)
    assert {"--embedded-dir=", "--service-cluster-ip-range=", "--help"} <= set(found["apiserver"].flags)
    assert "--controllers=" not in found["apiserver"].flags
