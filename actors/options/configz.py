"""Options as they are shown: flag by flag in logs and /flagz, as a component configuration in /configz."""

from __future__ import annotations

from typing import Any

from actors.options.table import Options
from runtime.flags.values import DURATION, format_duration

CONFIGZ_KEY = "kubecontrollermanager.config.k8s.io"
COLLECTED_NEVER = [{"Group": "", "Resource": "events"}, {"Group": "events.k8s.io", "Resource": "events"}]


def flag_values(options: Options) -> dict[str, str]:
    """Every flag's value, given or not, in the words in which it could be given; by name."""
    values = {}
    for flag in options.flags:
        value = options.value_of(flag)
        values[flag.name] = value if isinstance(value, str) else flag.kind.show(value)
    return dict(sorted(values.items()))


def configuration(options: Options) -> dict[str, Any]:
    """Upstream's KubeControllerManagerConfiguration, JSON-able. What kcm has no flag for is left out.

    Durations are strings as Go prints them.
    """
    blocks: dict[str, Any] = {
        "kind": "KubeControllerManagerConfiguration",
        "apiVersion": f"{CONFIGZ_KEY}/v1alpha1",
        "Generic": {"Port": 0, "Address": "0.0.0.0", "LeaderMigrationEnabled": options.leader_migration.enabled},
        "GarbageCollectorController": {"GCIgnoredResources": COLLECTED_NEVER},
        "KubeCloudShared": {"UseServiceAccountCredentials": options.client_limits.use_service_account_credentials},
    }
    for flag in options.flags:
        if not flag.config:
            continue
        value = options.value_of(flag)
        if flag.kind is DURATION:
            value = format_duration(value)
        *outer, name = flag.config.split(".")
        block = blocks
        for part in outer:
            block = block.setdefault(part, {})
        block[name] = list(value) if isinstance(value, tuple) else value
    return blocks
