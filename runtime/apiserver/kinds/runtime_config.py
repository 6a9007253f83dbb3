"""Which built-in kinds are served: by default no alpha and beta group versions, as with upstream's --runtime-config.

Source: kubernetes pkg/controlplane/instance.go, DefaultAPIResourceConfigSource; apiserver
pkg/server/resourceconfig/helpers.go (v1.36). Differs: nothing that is served by default can be turned off.
"""

from __future__ import annotations

from collections.abc import Iterable

from kcm.runtime.apiserver.kinds.built_in import BUILT_IN
from kcm.runtime.apiserver.kinds.off_by_default import OFF_BY_DEFAULT
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition

# Served to the programs of this project alone, whose controllers act on them.
_BETA_BUILT_IN = {"certificates.k8s.io/v1beta1"}
_ALL, _ALPHA, _BETA = "api/all", "api/alpha", "api/beta"
_BOOLEANS = {"true": True, "1": True, "t": True, "false": False, "0": False, "f": False}


def served_kinds(config: Iterable[str] = ()) -> tuple[ResourceDefinition, ...]:
    """config: KEY or KEY=BOOLEAN, where KEY is api/all, api/alpha, api/beta, GROUP/VERSION or GROUP/VERSION/RESOURCE.

    Raises ValueError on a key that is unknown, or turns off what is served by default.
    """
    optional = [one for one in (*BUILT_IN, *OFF_BY_DEFAULT) if is_off_by_default(one)]
    known = {_ALL, _ALPHA, _BETA, *(one.api_version for one in optional), *map(_key, optional)}
    chosen: dict[str, bool] = {}
    for text in config:
        key, equals, value = text.strip().partition("=")
        given = _BOOLEANS.get(value.lower()) if equals else True
        if given is None:
            raise ValueError(f"{text}: expected {key}=true or {key}=false")
        if key not in known:
            raise ValueError(f"{key}: expected one of {', '.join(sorted(known))}")
        chosen[key] = given
    everything = chosen.get(_ALL, False)

    def is_chosen(one: ResourceDefinition) -> bool:
        of_stage = chosen.get(_ALPHA if "alpha" in one.version else _BETA, everything)
        return chosen.get(_key(one), chosen.get(one.api_version, of_stage))

    default = (one for one in BUILT_IN if not is_off_by_default(one))
    return (*default, *(one for one in optional if is_chosen(one)))


def is_off_by_default(definition: ResourceDefinition) -> bool:
    return definition in OFF_BY_DEFAULT or definition.api_version in _BETA_BUILT_IN


def _key(definition: ResourceDefinition) -> str:
    return f"{definition.api_version}/{definition.plural}"
