"""Options as they are shown: flag by flag in logs and /flagz, as a component configuration in /configz."""

from __future__ import annotations

from typing import Any

from kcm.actors.options.feature_gates import WORKING, without_effect
from kcm.actors.options.table import Options
from kcm.runtime.flags.values import DURATION, format_duration

CONFIGZ_KEY = "kubecontrollermanager.config.k8s.io"
OWN_KEY = "kcm"


def flag_values(options: Options) -> dict[str, str]:
    """Every flag's value, given or not, in the words in which it could be given; by name."""
    values = {}
    for flag in options.flags:
        value = options.value_of(flag)
        values[flag.name] = value if isinstance(value, str) else flag.kind.show(value)
    return dict(sorted(values.items()))


def configuration(options: Options) -> dict[str, Any]:
    """Upstream's KubeControllerManagerConfiguration, JSON-able, as far as it has an effect here.

    What kcm has no flag for is left out, and what a flag stands for that does nothing: own_configuration names those.
    Durations are strings as Go prints them.
    """
    blocks: dict[str, Any] = {
        "kind": "KubeControllerManagerConfiguration",
        "apiVersion": f"{CONFIGZ_KEY}/v1alpha1",
        "Generic": {"Port": 0, "Address": "0.0.0.0"},
    }
    for flag in options.flags:
        if not flag.config or flag.is_idle:
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


def own_configuration(options: Options) -> dict[str, Any]:
    """What upstream's form has no place for: feature gates that something here looks at, and what was set in vain.

    flagsWithoutEffect: those that stood on the command line.
    """
    idle = {flag.name for flag in options.flags if flag.is_idle}
    return {
        "featureGates": {name: options.feature_gates[name] for name in sorted(WORKING)},
        "featureGatesWithoutEffect": without_effect(options.generic.feature_gate_settings, options.feature_gates),
        "flagsWithoutEffect": sorted(idle & options.given),
    }
