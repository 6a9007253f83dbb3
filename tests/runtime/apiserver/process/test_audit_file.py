from __future__ import annotations

from pathlib import Path

from kcm.runtime.apiserver.process.audit_file import MEGABYTE, AuditFile

START = 1_767_322_800.0  # 2026-01-02T03:00:00Z
DAY = 86400.0
HALF = b"x" * (MEGABYTE // 2) + b"\n"


class Clock:
    time = START

    def now(self) -> float:
        return self.time


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_lines_are_appended_to_an_existing_file(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "audit.log"
    for line in (b"a\n", b"b\n"):
        file = AuditFile(path, now=Clock().now)
        file.write(line)
        file.close()
    assert path.read_bytes() == b"a\nb\n"
    assert path.stat().st_mode & 0o777 == 0o600


def test_full_file_is_rotated_and_the_oldest_are_deleted(tmp_path: Path) -> None:
    clock = Clock()
    file = AuditFile(tmp_path / "audit.log", now=clock.now, max_size=1, max_backups=2)
    for _ in range(4):
        file.write(HALF)
        clock.time += 60
    assert names(tmp_path) == [
        "audit-2026-01-02T03-02-00.000.log",
        "audit-2026-01-02T03-03-00.000.log",
        "audit.log",
    ]
    assert (tmp_path / "audit.log").read_bytes() == HALF
    file.close()


def test_rotated_files_are_deleted_by_age(tmp_path: Path) -> None:
    clock = Clock()
    file = AuditFile(tmp_path / "audit.log", now=clock.now, max_size=1, max_age=2)
    for _ in range(5):
        file.write(HALF)
        clock.time += DAY
    assert names(tmp_path) == [
        "audit-2026-01-04T03-00-00.000.log",
        "audit-2026-01-05T03-00-00.000.log",
        "audit-2026-01-06T03-00-00.000.log",
        "audit.log",
    ]
    file.close()
