"""Settings of the embedded API server from flags."""

from __future__ import annotations

from pathlib import Path

from kcm.actors.options.embedded import EmbeddedServerOptions
from kcm.runtime.apiserver.process.settings import ServerSettings


def server_settings(server: EmbeddedServerOptions, directory: Path) -> ServerSettings:
    """Return the settings that these flags determine. The caller adds those that depend on its controllers."""
    return ServerSettings(
        directory=directory,
        port=server.port,
        in_memory=server.in_memory,
        durability=server.durability,
        metrics=server.metrics,
        runtime_config=server.runtime_config,
        enable_plugins=server.enable_plugins,
        admission_config_file=server.admission_config_file,
        authorization=server.authorization,
        anonymous_auth=server.anonymous_auth,
        client_ca_file=server.client_ca_file,
        audit_policy_file=server.audit_policy_file,
        audit_log_path=server.audit_log_path,
        audit_log_max_size=server.audit_log_max_size,
        audit_log_max_age=server.audit_log_max_age,
        audit_log_max_backup=server.audit_log_max_backup,
    )
