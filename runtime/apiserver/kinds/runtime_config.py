"""Selection of the built-in kinds to serve, as with upstream's flag --runtime-config.

Alpha and beta group versions are off by default.

Source: kubernetes pkg/controlplane/instance.go, DefaultAPIResourceConfigSource; apiserver
pkg/server/resourceconfig/helpers.go; pkg/registry/{scheduling,storagemigration}/rest (v1.36). Differences: kinds that
are on by default cannot be disabled, and those of certificates.k8s.io/v1beta1 need no feature gate.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from kcm.protocols.resources import GATES, GATES_OF_KINDS
from kcm.runtime.apiserver.kinds.built_in import BUILT_IN
from kcm.runtime.apiserver.kinds.off_by_default import OFF_BY_DEFAULT
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition

# Group versions that are in BUILT_IN, as controllers of this project use them, but off by default in upstream.
_BETA_BUILT_IN = {"certificates.k8s.io/v1beta1"}
_ALL, _ALPHA, _BETA = "api/all", "api/alpha", "api/beta"
_BOOLEANS = {"true": True, "1": True, "t": True, "false": False, "0": False, "f": False}


def served_kinds(config: Iterable[str] = (), gates: Container[str] = GATES) -> tuple[ResourceDefinition, ...]:
    """Return the built-in kinds to serve: those that are on by default, and those that the configuration enables.

    config: KEY or KEY=BOOLEAN, where KEY is api/all, api/alpha, api/beta, GROUP/VERSION or GROUP/VERSION/RESOURCE; the
    most specific key wins
    gates: the enabled feature gates among GATES

    Raises ValueError for an unknown key. Keys of kinds that are on by default count as unknown.
    """
    optional = [definition for definition in (*BUILT_IN, *OFF_BY_DEFAULT) if is_off_by_default(definition)]
    known = {_ALL, _ALPHA, _BETA, *(definition.api_version for definition in optional), *map(_key, optional)}
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

    def is_chosen(definition: ResourceDefinition) -> bool:
        gate = GATES_OF_KINDS.get(_key(definition))
        if gate is not None and gate not in gates:
            return False
        of_stage = chosen.get(_ALPHA if "alpha" in definition.version else _BETA, everything)
        return chosen.get(_key(definition), chosen.get(definition.api_version, of_stage))

    default = (definition for definition in BUILT_IN if not is_off_by_default(definition))
    return (*default, *(definition for definition in optional if is_chosen(definition)))


def is_off_by_default(definition: ResourceDefinition) -> bool:
    return definition in OFF_BY_DEFAULT or definition.api_version in _BETA_BUILT_IN


def _key(definition: ResourceDefinition) -> str:
    return f"{definition.api_version}/{definition.plural}"
