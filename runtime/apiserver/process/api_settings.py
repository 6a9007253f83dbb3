"""Settings of ApiServer, derived from the command line of the server's process."""

from __future__ import annotations

from pathlib import Path

from kcm.protocols.admission_plugins import enabled_plugins
from kcm.runtime.apiserver.core.settings import SERVICE_RANGES, ApiSettings
from kcm.runtime.apiserver.kinds.aggregated import AGGREGATED
from kcm.runtime.apiserver.kinds.core.service.cluster_ips import read_service_ranges
from kcm.runtime.apiserver.kinds.later_releases import with_later_kinds
from kcm.runtime.apiserver.kinds.runtime_config import served_kinds
from kcm.runtime.apiserver.process.failures import CannotServeError
from kcm.runtime.apiserver.process.settings import RBAC, ServerSettings
from kcm.runtime.apiserver.registry.admission_settings import BY_DEFAULT, AdmissionSettings
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition


def api_settings(settings: ServerSettings) -> ApiSettings:
    """Return the settings of ApiServer for the flags, after reading the files that the flags name.

    Raises CannotServeError if a flag or a file is invalid.
    """
    service_ranges, plugins = _service_ranges(settings), _plugins(settings)
    admission, kinds = _admission(settings.admission_config_file), _kinds(settings)
    return ApiSettings(
        resources=(*kinds, *AGGREGATED) if settings.metrics else kinds,
        stand_ins=() if settings.metrics else AGGREGATED,
        service_ranges=service_ranges,
        role_based=settings.authorization == RBAC,
        plugins=plugins,
        admission=admission,
        collect_garbage=settings.collect_garbage,
        empty_namespaces=settings.empty_namespaces,
    )


def _kinds(settings: ServerSettings) -> tuple[ResourceDefinition, ...]:
    try:
        return with_later_kinds(served_kinds(settings.runtime_config, settings.gates), settings.emulated_version)
    except ValueError as err:
        raise CannotServeError(f"--runtime-config: {err}") from err


def _service_ranges(settings: ServerSettings) -> tuple[str, ...]:
    ranges = settings.service_ranges or SERVICE_RANGES
    try:
        read_service_ranges(ranges)
    except ValueError as err:
        raise CannotServeError(f"--service-cluster-ip-range: {err}") from err
    return ranges


def _plugins(settings: ServerSettings) -> frozenset[str]:
    try:
        return enabled_plugins(enable=settings.enable_plugins, disable=settings.disable_plugins)
    except ValueError as err:
        raise CannotServeError(str(err)) from err


def _admission(path: str) -> AdmissionSettings:
    if not path:
        return BY_DEFAULT
    from kcm.runtime.apiserver.process.admission_configuration import ConfigurationError, read_configuration

    try:
        return read_configuration(Path(path))
    except ConfigurationError as err:
        raise CannotServeError(f"--admission-control-config-file: {err}") from err
