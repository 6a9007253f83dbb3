"""From flags to the settings of the embedded API server that say who may in."""

from __future__ import annotations

from pathlib import Path

from kcm.actors.options.embedded import EmbeddedServer
from kcm.runtime.apiserver.process.access_settings import AccessSettings


def access_of(server: EmbeddedServer) -> AccessSettings:
    return AccessSettings(
        authorization=server.authorization,
        anonymous_auth=server.anonymous_auth,
        client_ca_file=_absolute(server.client_ca_file),
        audit_policy_file=_absolute(server.audit_policy_file),
        audit_log_path=_absolute(server.audit_log_path),
        audit_log_max_size=server.audit_log_max_size,
        audit_log_max_age=server.audit_log_max_age,
        audit_log_max_backup=server.audit_log_max_backup,
        admission_config_file=_absolute(server.admission_config_file),
    )


def _absolute(path: str) -> str:
    return str(Path(path).resolve()) if path else ""
