"""Private files, and directories that one process uses."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from kcm.runtime.process.files import DirectoryInUseError, sole_use, write_private

ROOT = Path(__file__).parents[3]
CONTENDER = """
import sys
from pathlib import Path
from kcm.runtime.process.files import sole_use
with sole_use(Path(sys.argv[1])):
    pass
"""


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def contend(directory: Path) -> subprocess.CompletedProcess[str]:
    """Try to lock the directory in another process."""
    return subprocess.run(
        [sys.executable, "-c", CONTENDER, str(directory)], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_private_file_is_readable_by_its_owner_only_for_any_umask(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        write_private(tmp_path / "key", b"secret")
    finally:
        os.umask(umask)
    assert (tmp_path / "key").read_bytes() == b"secret"
    assert mode(tmp_path / "key") == 0o600


def test_private_file_is_synced_before_it_is_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[str] = []
    fsync, replace = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        fsync(descriptor)
        what = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        happened.append(f"synced {what.name}" if what != tmp_path else "synced the directory")

    def replaced(old: Path, new: Path) -> None:
        assert Path(old).read_bytes() == b"secret"
        replace(old, new)
        happened.append("renamed")

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    write_private(tmp_path / "key", b"secret")
    assert happened == [f"synced .key.{os.getpid()}", "renamed", "synced the directory"]


def test_existing_file_is_replaced_without_temporary_files_left(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"old and longer")
    (tmp_path / f".key.{os.getpid()}").write_bytes(b"of a process that died")
    write_private(path, b"new")
    assert path.read_bytes() == b"new"
    assert mode(path) == 0o600
    assert os.listdir(tmp_path) == ["key"]


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.mkdir()
    with pytest.raises(OSError):
        write_private(path, b"new")
    assert os.listdir(tmp_path) == ["key"]


def test_directory_is_private_and_locked_against_other_processes(tmp_path: Path) -> None:
    directory = tmp_path / "a" / "b"
    with sole_use(directory):
        assert mode(directory) == 0o700
        refused = contend(directory)
        assert f"{directory} is in use by process {os.getpid()}" in refused.stderr
    assert contend(directory).returncode == 0


def test_directory_in_use_by_the_same_process_is_an_error(tmp_path: Path) -> None:
    with sole_use(tmp_path), pytest.raises(DirectoryInUseError, match=str(os.getpid())), sole_use(tmp_path):
        pass
