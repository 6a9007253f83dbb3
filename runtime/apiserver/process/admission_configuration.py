"""Parser of --admission-control-config-file: an AdmissionConfiguration for ResourceQuota and PodSecurity.

Source: apiserver pkg/admission/config.go, plugin/resourcequota/apis/resourcequota, kubernetes
plugin/pkg/admission/security/podsecurity/admission.go, pod-security-admission admission/api (v1.36). Difference: a
plugin that is unknown, or that has no configuration here, is an error; upstream ignores it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from kcm.protocols.admission_plugins import KNOWN, POD_SECURITY, RESOURCE_QUOTA
from kcm.protocols.quota.scopes import DOES_NOT_EXIST, EXISTS, IN, NOT_IN, ScopeRequirement
from kcm.runtime.apiserver.admission.pod_security.levels import LEVELS, PREFIX, policy_of
from kcm.runtime.apiserver.registry.admission_settings import AdmissionSettings, LimitedResource, PodSecuritySettings
from kcm.runtime.apiserver.rules.names import dns_label, dns_subdomain

_HEAD = {"apiVersion", "kind"}
_CONFIGURATION = ("apiserver.config.k8s.io/v1", "AdmissionConfiguration")
_OLD_CONFIGURATION = ("apiserver.config.k8s.io/v1alpha1", "AdmissionConfiguration")
_QUOTA = {
    ("apiserver.config.k8s.io/v1", "ResourceQuotaConfiguration"),
    *((f"resourcequota.admission.k8s.io/{version}", "Configuration") for version in ("v1", "v1beta1", "v1alpha1")),
}
_SECURITY = {
    (f"pod-security.admission.config.k8s.io/{version}", "PodSecurityConfiguration")
    for version in ("v1", "v1beta1", "v1alpha1")
}
_MODES = tuple(f"{mode}{end}" for mode in ("enforce", "audit", "warn") for end in ("", "-version"))
_OPERATORS = (IN, NOT_IN, EXISTS, DOES_NOT_EXIST)


class ConfigurationError(Exception):
    """Invalid admission configuration. The text contains the file, the field and the reason."""


def read_configuration(path: Path) -> AdmissionSettings:
    """Return the admission settings in a file. Raises ConfigurationError."""
    section = _map(_read(path), str(path))
    if _type(section) not in (_CONFIGURATION, _OLD_CONFIGURATION):
        raise ConfigurationError(f"{path}: must be an AdmissionConfiguration of apiserver.config.k8s.io/v1")
    _check_fields(section, {*_HEAD, "plugins"}, str(path))
    settings = AdmissionSettings()
    seen: set[str] = set()
    for number, plugin in enumerate(_list(section.get("plugins"), f"{path}: plugins")):
        where = f"{path}: plugins[{number}]"
        fields = _map(plugin, where)
        _check_fields(fields, {"name", "path", "configuration"}, where)
        name, configuration = fields.get("name") or "", fields.get("configuration")
        if name in seen:
            raise ConfigurationError(f"{where}: duplicate admission plugin {name!r}")
        if name not in KNOWN:
            raise ConfigurationError(f"{where}: unknown admission plugin {name!r}")
        seen.add(name)
        if configuration is None and fields.get("path"):
            where = str(path.parent / _text(fields["path"], where))
            configuration = _read(Path(where))
        if name == RESOURCE_QUOTA:
            settings = settings._replace(limited=tuple(_limited(configuration, where)))
        elif name == POD_SECURITY:
            settings = settings._replace(pod_security=_pod_security(configuration, where))
        elif configuration is not None:
            raise ConfigurationError(f"{where}: the admission plugin {name!r} cannot be configured")
    return settings


def _limited(section: Any, where: str) -> Iterator[LimitedResource]:
    if section is None:
        return
    section = _map(section, where)
    if _type(section) not in _QUOTA:
        raise ConfigurationError(f"{where}: must be a ResourceQuotaConfiguration of apiserver.config.k8s.io/v1")
    _check_fields(section, {*_HEAD, "limitedResources"}, where)
    for number, limited in enumerate(_list(section.get("limitedResources"), f"{where}: limitedResources")):
        at = f"{where}: limitedResources[{number}]"
        fields = _map(limited, at)
        _check_fields(fields, {"apiGroup", "resource", "matchContains", "matchScopes"}, at)
        if not fields.get("resource"):
            raise ConfigurationError(f"{at}.resource: Required value")
        contains = tuple(_text(text, f"{at}.matchContains") for text in _list(fields.get("matchContains"), at))
        scopes = tuple(_scope(scope, f"{at}.matchScopes") for scope in _list(fields.get("matchScopes"), at))
        yield LimitedResource(_text(fields.get("apiGroup") or "", at), _text(fields["resource"], at), contains, scopes)


def _scope(section: Any, where: str) -> ScopeRequirement:
    fields = _map(section, where)
    _check_fields(fields, {"scopeName", "operator", "values"}, where)
    operator = fields.get("operator") or ""
    if operator not in _OPERATORS:
        raise ConfigurationError(f"{where}.operator: {operator!r} is not one of {', '.join(_OPERATORS)}")
    values = tuple(_text(value, where) for value in _list(fields.get("values"), where))
    return ScopeRequirement(_text(fields.get("scopeName") or "", where), operator, values)


def _pod_security(section: Any, where: str) -> PodSecuritySettings:
    if section is None:
        return PodSecuritySettings()
    section = _map(section, where)
    if _type(section) not in _SECURITY:
        raise ConfigurationError(
            f"{where}: must be a PodSecurityConfiguration of pod-security.admission.config.k8s.io/v1"
        )
    _check_fields(section, {*_HEAD, "defaults", "exemptions"}, where)
    defaults = _map(section.get("defaults") or {}, f"{where}: defaults")
    _check_fields(defaults, _MODES, f"{where}: defaults")
    _, wrong = policy_of({f"{PREFIX}{mode}": str(value) for mode, value in defaults.items() if value})
    if wrong:
        raise ConfigurationError(
            f"{where}: defaults: levels are {', '.join(LEVELS)}, versions 'latest' or v1.x: "
            + ", ".join(f"{mode}: {defaults[mode]}" for mode in _MODES if defaults.get(mode))
        )
    exempt = _map(section.get("exemptions") or {}, f"{where}: exemptions")
    _check_fields(exempt, {"usernames", "namespaces", "runtimeClasses"}, f"{where}: exemptions")
    return PodSecuritySettings(
        {mode: str(value) for mode, value in defaults.items() if value},
        _names(exempt, "usernames", where, lambda name: [] if name else ["username must not be empty"]),
        _names(exempt, "namespaces", where, dns_label),
        _names(exempt, "runtimeClasses", where, dns_subdomain),
    )


def _names(section: Mapping[str, Any], field: str, where: str, wrong: Callable[[str], list[str]]) -> frozenset[str]:
    at = f"{where}: exemptions.{field}"
    found = [_text(name, at) for name in _list(section.get(field), at)]
    for name in found:
        texts = wrong(name)
        if texts or found.count(name) > 1:
            raise ConfigurationError(f"{at}: {name!r}: {', '.join(texts) or 'Duplicate value'}")
    return frozenset(found)


def _read(path: Path) -> Any:
    import yaml

    try:
        return yaml.safe_load(path.read_text())
    except OSError as err:
        raise ConfigurationError(f"unable to read admission control configuration from {path}: {err.strerror}") from err
    except (yaml.YAMLError, UnicodeDecodeError) as err:
        raise ConfigurationError(f"{path}: {' '.join(str(err).split())}") from err


def _type(section: Mapping[str, Any]) -> tuple[Any, Any]:
    return section.get("apiVersion"), section.get("kind")


def _check_fields(section: Mapping[str, Any], known: Collection[str], where: str) -> None:
    unknown = [str(field) for field in section if field not in known]
    if unknown:
        raise ConfigurationError(f"{where}: unknown field {', '.join(map(repr, unknown))}")


def _map(section: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(section, dict):
        raise ConfigurationError(f"{where}: must be a map")
    return section


def _list(section: Any, where: str) -> list[Any]:
    if section is not None and not isinstance(section, list):
        raise ConfigurationError(f"{where}: must be a list")
    return section or []


def _text(section: Any, where: str) -> str:
    if not isinstance(section, str):
        raise ConfigurationError(f"{where}: {section!r} is not a string")
    return section
