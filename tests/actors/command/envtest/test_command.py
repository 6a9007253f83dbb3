"""`run-kcm envtest DIR`: the programs that it writes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from kcm.actors.command.envtest.command import CannotWriteError, main, write_programs


def test_programs_and_a_link_to_kubectl_are_written(tmp_path: Path) -> None:
    directory = write_programs(tmp_path / "a b", kubectl="/usr/bin/kubectl")
    assert sorted(path.name for path in directory.iterdir()) == ["etcd", "kube-apiserver", "kubectl"]
    assert (directory / "kubectl").readlink() == Path("/usr/bin/kubectl")
    for name in ("etcd", "kube-apiserver"):
        assert os.access(directory / name, os.X_OK)


def test_written_program_has_the_flags_that_the_suite_looks_for(tmp_path: Path) -> None:
    directory = write_programs(tmp_path, kubectl=None)
    done = subprocess.run([str(directory / "etcd"), "--help"], capture_output=True, text=True, check=True)
    assert "  --unsafe-no-fsync" in done.stdout
    done = subprocess.run([str(directory / "kube-apiserver"), "--help"], capture_output=True, text=True, check=True)
    assert "  --secure-port" in done.stdout
    assert "--insecure-port" not in done.stdout


def test_programs_are_replaced_and_the_link_is_kept(tmp_path: Path) -> None:
    write_programs(tmp_path, kubectl="/bin/sh")
    write_programs(tmp_path, extras=["--kcm-garbage-collection"], kubectl="/bin/ls")
    assert "--kcm-garbage-collection" in (tmp_path / "kube-apiserver").read_text()
    assert "--kcm-garbage-collection" not in (tmp_path / "etcd").read_text()
    assert (tmp_path / "kubectl").readlink() == Path("/bin/sh")


@pytest.mark.parametrize("is_link", [False, True])
def test_a_program_of_another_kind_is_not_overwritten(tmp_path: Path, is_link: bool) -> None:
    if is_link:
        (tmp_path / "kube-apiserver").symlink_to("/usr/bin/env")
    else:
        (tmp_path / "kube-apiserver").write_bytes(b"\x7fELF")
    with pytest.raises(CannotWriteError, match="name another directory"):
        write_programs(tmp_path, kubectl=None)
    assert not (tmp_path / "etcd").exists()


def test_command_prints_the_line_to_evaluate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "it's here"), "--namespace-deletion"]) == 0
    assert capsys.readouterr().out.startswith("export KUBEBUILDER_ASSETS='")
    assert main([str(tmp_path / "it's here" / "etcd")]) == 1
    assert capsys.readouterr().err.startswith("Error: ")


def test_missing_interpreter_is_reported(tmp_path: Path) -> None:
    write_programs(tmp_path, kubectl=None)
    program = tmp_path / "etcd"
    lines = [line if not line.startswith("python=") else "python=/missing" for line in program.read_text().split("\n")]
    program.write_text("\n".join(lines))
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "Error: /missing is missing: run run-kcm envtest again\n")
