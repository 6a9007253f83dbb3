"""Audit log of the server's process, from its settings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from kcm.runtime.apiserver.access.audit_policy import AuditPolicy, PolicyError
from kcm.runtime.apiserver.core.identifiers import RandomUids
from kcm.runtime.apiserver.http.audit import AuditLog
from kcm.runtime.apiserver.process.audit_file import AuditFile
from kcm.runtime.apiserver.process.failures import CannotServeError
from kcm.runtime.apiserver.process.settings import ServerSettings
from kcm.runtime.scheduling.clock import SystemClock

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


def audit_log(settings: ServerSettings, *, clock: SystemClock, log: FilteringBoundLogger) -> AuditLog | None:
    """Open the audit log; return None if the settings do not name both a policy file and a log file.

    Raises CannotServeError if the policy is invalid or the log file cannot be opened. If a later write fails, the event
    is dropped; the first of consecutive failures is logged.
    """
    if not settings.audit_policy_file or not settings.audit_log_path:
        return None
    path = Path(settings.audit_policy_file)
    try:
        policy = AuditPolicy(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, PolicyError) as err:
        raise CannotServeError(f"--audit-policy-file: {path}: {' '.join(str(err).split())}") from err
    try:
        file = AuditFile(
            Path(settings.audit_log_path),
            now=clock.now,
            max_size=settings.audit_log_max_size,
            max_age=settings.audit_log_max_age,
            max_backups=settings.audit_log_max_backup,
        )
    except OSError as err:
        raise CannotServeError(f"--audit-log-path: {settings.audit_log_path}: {err.strerror or err}") from err
    is_failing = False

    def write(line: bytes) -> None:
        nonlocal is_failing
        try:
            file.write(line)
            is_failing = False
        except OSError as err:
            if not is_failing:  # log only the first of consecutive failures
                log.error("audit log cannot be written", path=settings.audit_log_path, error=str(err))
            is_failing = True

    return AuditLog(policy, write=write, now=clock.now, number=RandomUids())
