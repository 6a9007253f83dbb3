"""What /configz shows: the options as upstream's component configuration, KubeControllerManagerConfiguration."""

from __future__ import annotations

from typing import Any

from actors.options.table import FLAGS, Options
from runtime.flag_values import DURATION, format_duration

CONFIGZ_KEY = "kubecontrollermanager.config.k8s.io"
COLLECTED_NEVER = [{"Group": "", "Resource": "events"}, {"Group": "events.k8s.io", "Resource": "events"}]


def configuration(options: Options) -> dict[str, Any]:
    """JSON-able. Durations are strings as Go prints them. What kcm has no flag for is left out."""
    blocks: dict[str, Any] = {
        "kind": "KubeControllerManagerConfiguration",
        "apiVersion": f"{CONFIGZ_KEY}/v1alpha1",
        "Generic": {"Port": 0, "Address": "0.0.0.0", "LeaderMigrationEnabled": options.leader_migration.enabled},
        "GarbageCollectorController": {"GCIgnoredResources": COLLECTED_NEVER},
        "KubeCloudShared": {"UseServiceAccountCredentials": options.client_limits.use_service_account_credentials},
    }
    for flag in FLAGS:
        if not flag.config:
            continue
        value = getattr(getattr(options, flag.path[0]), flag.path[1])
        if flag.kind is DURATION:
            value = format_duration(value)
        *outer, name = flag.config.split(".")
        block = blocks
        for part in outer:
            block = block.setdefault(part, {})
        block[name] = list(value) if isinstance(value, tuple) else value
    return blocks
