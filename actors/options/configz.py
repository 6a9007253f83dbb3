"""Presentation of options: flag by flag in logs and /flagz, and as a component configuration in /configz."""

from __future__ import annotations

from typing import Any

from kcm.actors.options.feature_gates import WORKING, without_effect
from kcm.actors.options.table import Options
from kcm.runtime.flags.values import DURATION, STRING, format_duration

CONFIGZ_KEY = "kubecontrollermanager.config.k8s.io"
OWN_KEY = "kcm"


def flag_values(options: Options) -> dict[str, str]:
    """Return the value of every flag by name, as it would be written on the command line."""
    values = {}
    for flag in options.flags:
        value = options.value_of(flag)
        values[flag.name] = value if flag.kind is STRING else flag.kind.show(value)
    return dict(sorted(values.items()))


def configuration(options: Options) -> dict[str, Any]:
    """Return upstream's KubeControllerManagerConfiguration as JSON values, without fields that have no effect in kcm.

    own_configuration names the given flags that have no effect. Durations are strings as Go prints them.
    """
    blocks: dict[str, Any] = {
        "kind": "KubeControllerManagerConfiguration",
        "apiVersion": f"{CONFIGZ_KEY}/v1alpha1",
        "Generic": {"Port": 0, "Address": "0.0.0.0"},
    }
    for flag in options.flags:
        if not flag.config or flag.retired:
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
    """Return the part without a field in upstream's configuration: feature gates, and settings without effect.

    flagsWithoutEffect contains only flags of the command line.
    """
    retired = {flag.name for flag in options.flags if flag.retired}
    return {
        "featureGates": {name: options.feature_gates[name] for name in sorted(WORKING)},
        "featureGatesWithoutEffect": without_effect(options.generic.feature_gate_settings, options.feature_gates),
        "flagsWithoutEffect": sorted(retired & options.given),
    }
