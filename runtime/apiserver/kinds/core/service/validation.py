"""Validation of Services and their updates, with the order and texts of upstream's errors.

Source: kubernetes pkg/apis/core/validation/validation.go (validateService, ValidateServiceUpdate,
ValidateServiceStatusUpdate, ValidateLoadBalancerStatus; v1.36). Difference: upstream accepts an invalid address or
range if the stored object contains it. Here it is rejected, as this server has never stored an invalid one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcm.protocols.objects import Object, annotations_of
from kcm.runtime.apiserver.errors.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kcm.runtime.apiserver.kinds.core.service.fields import (
    CLUSTER_IP,
    EXTERNAL_NAME,
    LOAD_BALANCER,
    NODE_PORT,
    SINGLE_STACK,
    Spec,
    is_external,
    is_headless,
    needs_health_check,
)
from kcm.runtime.apiserver.kinds.core.service.ip_families import validate_cluster_ips
from kcm.runtime.apiserver.kinds.pod_spec.handlers import port_name_problems
from kcm.runtime.apiserver.rules.ip_addresses import validate_cidr, validate_endpoint_ip, validate_ip
from kcm.runtime.apiserver.rules.names import dns_label, dns_subdomain, label_key
from kcm.runtime.apiserver.rules.object_meta import validate_labels

TYPES = (CLUSTER_IP, EXTERNAL_NAME, LOAD_BALANCER, NODE_PORT)
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_AFFINITIES = ("ClientIP", "None")
_POLICIES = ("Cluster", "Local")
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_LONGEST_AFFINITY = 86400  # seconds
_HINTS, _MODE = "service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode"
_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
_LOAD_BALANCER_ONLY = "may only be used when `type` is 'LoadBalancer'"
_SET_ONCE = "may not change once set"
_PORT_NUMBER = "must be between 1 and 65535, inclusive"


def validate(service: Object) -> list[FieldError]:
    spec = service["spec"]
    kind, ports = spec["type"], spec.get("ports") or []
    errors = _validate_topology(service)
    if not ports and not is_headless(spec) and kind != EXTERNAL_NAME:
        errors.append(required("spec.ports"))
    if kind in (LOAD_BALANCER, NODE_PORT) and is_headless(spec):
        detail = f"may not be set to 'None' for {kind} services"
        errors.append(invalid("spec.clusterIPs[0]", "None", detail))
    if kind == EXTERNAL_NAME:
        errors += _validate_external_name(spec)
    names: set[str] = set()
    for i, port in enumerate(ports):
        errors += _validate_port(port, f"spec.ports[{i}]", names, needs_name=len(ports) > 1)
    errors += validate_labels(spec.get("selector") or {}, "spec.selector")
    errors += _validate_affinity(spec)
    errors += validate_cluster_ips(spec)
    for i, address in enumerate(spec.get("externalIPs") or ()):
        field = f"spec.externalIPs[{i}]"
        errors += validate_ip(address, field) or validate_endpoint_ip(address, field)
    if kind not in TYPES:
        errors.append(not_supported("spec.type", kind, TYPES))
    errors += _validate_port_numbers(kind, ports)
    errors += _validate_source_ranges(service)
    if spec.get("allocateLoadBalancerNodePorts") is not None and kind != LOAD_BALANCER:
        errors.append(forbidden("spec.allocateLoadBalancerNodePorts", _LOAD_BALANCER_ONLY))
    errors += _validate_class(spec)
    errors += _validate_external_policy(spec)
    policy = spec.get("internalTrafficPolicy")
    if policy is not None and policy not in _POLICIES:
        errors.append(not_supported("spec.internalTrafficPolicy", policy, _POLICIES))
    distribution = spec.get("trafficDistribution")
    if distribution is not None and distribution not in _DISTRIBUTIONS:
        errors.append(not_supported("spec.trafficDistribution", distribution, _DISTRIBUTIONS))
    return errors


def _validate_topology(service: Object) -> list[FieldError]:
    annotations = annotations_of(service)
    mode, hints = annotations.get(_MODE), annotations.get(_HINTS)
    if mode is None or hints is None or mode == hints:
        return []
    detail = f"must match annotations[{_HINTS}] when both are specified"
    return [invalid(f"metadata.annotations[{_MODE}]", mode, detail)]


def _validate_external_name(spec: Spec) -> list[FieldError]:
    errors = [
        forbidden(f"spec.{field}", "may not be set for ExternalName services")
        for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
        if spec.get(field)
    ]
    name = (spec.get("externalName") or "").removesuffix(".")
    if not name:
        return [*errors, required("spec.externalName")]
    return errors + [invalid("spec.externalName", name, text) for text in dns_subdomain(name)]


def _validate_port(port: Object, field: str, names: set[str], *, needs_name: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    name, number, target = port.get("name") or "", port.get("port") or 0, port.get("targetPort")
    if name:
        errors += [invalid(f"{field}.name", name, text) for text in dns_label(name)]
        if name in names:
            errors.append(duplicate(f"{field}.name", name))
        names.add(name)
    elif needs_name:
        errors.append(required(f"{field}.name"))
    if not 1 <= number <= 65535:
        errors.append(invalid(f"{field}.port", number, _PORT_NUMBER))
    if port["protocol"] not in _PROTOCOLS:
        errors.append(not_supported(f"{field}.protocol", port["protocol"], _PROTOCOLS))
    if isinstance(target, str):
        errors += [invalid(f"{field}.targetPort", target, text) for text in port_name_problems(target)]
    elif not 1 <= (target or 0) <= 65535:
        errors.append(invalid(f"{field}.targetPort", target or 0, _PORT_NUMBER))
    protocol = port.get("appProtocol")
    if protocol is not None:
        errors += [invalid(f"{field}.appProtocol", protocol, text) for text in label_key(protocol)]
    return errors


def _validate_affinity(spec: Spec) -> list[FieldError]:
    affinity = spec["sessionAffinity"]
    if affinity not in _AFFINITIES:
        return [not_supported("spec.sessionAffinity", affinity, _AFFINITIES)]
    if affinity == "None":
        return []  # set_defaults has removed sessionAffinityConfig
    timeout = spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"]
    if 0 < timeout <= _LONGEST_AFFINITY:
        return []
    detail = f"must be greater than 0 and less than {_LONGEST_AFFINITY}"
    return [invalid("spec.sessionAffinityConfig.clientIP.timeoutSeconds", timeout, detail)]


def _validate_port_numbers(kind: str, ports: list[Object]) -> list[FieldError]:
    errors: list[FieldError] = []
    if kind == CLUSTER_IP:
        detail = "may not be used when `type` is 'ClusterIP'"
        errors += [
            forbidden(f"spec.ports[{i}].nodePort", detail) for i, port in enumerate(ports) if port.get("nodePort")
        ]
    for named in (True, False):
        seen: set[tuple[str, int]] = set()
        for i, port in enumerate(ports):
            number = port.get("nodePort" if named else "port") or 0
            if named and not number:
                continue
            pair = port["protocol"], number
            if pair in seen:
                path = f"spec.ports[{i}]"
                errors.append(duplicate(f"{path}.nodePort", number) if named else duplicate(path, _shown(pair)))
            seen.add(pair)
    return errors


def _shown(pair: tuple[str, int]) -> Mapping[str, Any]:
    """Return a ServicePort with this protocol and port, in the internal type that upstream's error texts show."""
    protocol, number = pair
    return {"Name": "", "Protocol": protocol, "AppProtocol": None, "Port": number, "TargetPort": 0, "NodePort": 0}


def _validate_source_ranges(service: Object) -> list[FieldError]:
    spec = service["spec"]
    ranges, annotated = spec.get("loadBalancerSourceRanges") or [], annotations_of(service).get(_RANGES)
    if ranges:
        field = "spec.LoadBalancerSourceRanges"
        fields = [(f"{field}[{i}]", cidr.strip()) for i, cidr in enumerate(ranges)]
    elif annotated is not None:
        field = f"metadata.annotations[{_RANGES}]"
        text = annotated.strip()
        fields = [(field, cidr.strip()) for cidr in text.split(",")] if text else []
    else:
        return []
    errors = [] if spec["type"] == LOAD_BALANCER else [forbidden(field, _LOAD_BALANCER_ONLY)]
    for path, cidr in fields:
        errors += validate_cidr(cidr, path)
    return errors


def _validate_class(spec: Spec) -> list[FieldError]:
    name = spec.get("loadBalancerClass")
    if name is None:
        return []
    if spec["type"] != LOAD_BALANCER:
        return [forbidden("spec.loadBalancerClass", _LOAD_BALANCER_ONLY)]
    return [invalid("spec.loadBalancerClass", name, text) for text in label_key(name)]


def _validate_external_policy(spec: Spec) -> list[FieldError]:
    errors: list[FieldError] = []
    policy, number = spec.get("externalTrafficPolicy") or "", spec.get("healthCheckNodePort") or 0
    if not is_external(spec):
        if policy:
            detail = "may only be set for externally-accessible services"
            errors.append(invalid("spec.externalTrafficPolicy", policy, detail))
    elif policy not in _POLICIES:
        errors.append(not_supported("spec.externalTrafficPolicy", policy, _POLICIES))
    if needs_health_check(spec):
        if not 1 <= number <= 65535:
            errors.append(invalid("spec.healthCheckNodePort", number, _PORT_NUMBER))
    elif number:
        detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        errors.append(invalid("spec.healthCheckNodePort", number, detail))
    return errors


def validate_update(new: Object, old: Object) -> list[FieldError]:
    """Validate an update of a Service.

    The first cluster IP and the first IP family are immutable, unless the Service had none or the update removes them
    all.
    """
    now, then = new["spec"], old["spec"]
    errors: list[FieldError] = []
    if EXTERNAL_NAME not in (now["type"], then["type"]):
        errors += _validate_addresses_kept(now, then)
        errors += _validate_families_kept(now, then)
    if now["type"] == then["type"] == LOAD_BALANCER:
        name = now.get("loadBalancerClass")
        if name != then.get("loadBalancerClass"):
            errors.append(invalid("spec.loadBalancerClass", name, _SET_ONCE))
    errors += _validate_class(now)  # upstream reports it here and in the general validation
    if needs_health_check(now) and needs_health_check(then):
        if now.get("healthCheckNodePort") != then.get("healthCheckNodePort"):
            errors.append(forbidden("spec.healthCheckNodePort", "field is immutable"))
    return errors


def _validate_addresses_kept(now: Spec, then: Spec) -> list[FieldError]:
    if is_headless(now) and is_headless(then):
        return []
    field, addresses, before = "spec.clusterIPs", now.get("clusterIPs"), then.get("clusterIPs") or []
    after: list[str] = addresses or []
    if len(after) == len(before):
        return [
            invalid(f"{field}[{i}]", after, _SET_ONCE)
            for i, (address, other) in enumerate(zip(after, before, strict=True))
            if address != other
        ]
    errors: list[FieldError] = []
    if not after:
        errors.append(invalid(f"{field}[0]", addresses, "primary clusterIP can not be unset"))
    if after and before and after[0] != before[0]:
        errors.append(invalid(f"{field}[0]", after, _SET_ONCE))
    if len(before) > len(after) == 1 and now.get("ipFamilyPolicy") != SINGLE_STACK:
        detail = "must be set to 'SingleStack' when releasing the secondary clusterIP"
        errors.append(invalid("spec.ipFamilyPolicy", now.get("ipFamilyPolicy"), detail))
    return errors


def _validate_families_kept(now: Spec, then: Spec) -> list[FieldError]:
    if is_headless(now) or is_headless(then):
        return []
    field, families, before = "spec.ipFamilies[0]", now.get("ipFamilies"), then.get("ipFamilies") or []
    after: list[str] = families or []
    if len(after) == len(before):
        return [
            invalid(field, after, _SET_ONCE) for family, other in zip(after, before, strict=True) if family != other
        ]
    errors: list[FieldError] = []
    if len(before) > len(after) and not now.get("clusterIPs"):
        errors.append(invalid(field, families, "primary ipFamily can not be unset"))
    if after and before and after[0] != before[0]:
        errors.append(invalid(field, now.get("clusterIPs"), _SET_ONCE))
    if len(before) > len(after) == 1 and now.get("ipFamilyPolicy") != SINGLE_STACK:
        detail = "must be set to 'SingleStack' when releasing the secondary ipFamily"
        errors.append(invalid("spec.ipFamilyPolicy", now.get("ipFamilyPolicy"), detail))
    return errors


def validate_status_update(new: Object, _old: Object) -> list[FieldError]:
    field = "status.loadBalancer.ingress"
    ingress = ((new.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
    if new["spec"]["type"] != LOAD_BALANCER and ingress:
        return [forbidden(field, "may only be used when `spec.type` is 'LoadBalancer'")]
    errors: list[FieldError] = []
    for i, entry in enumerate(ingress):
        errors += _validate_ingress(entry, f"{field}[{i}]")
    return errors


def _validate_ingress(ingress: Object, field: str) -> list[FieldError]:
    address, mode, host = ingress.get("ip") or "", ingress.get("ipMode"), ingress.get("hostname") or ""
    errors = validate_ip(address, f"{field}.ip") if address else []
    if mode is None:
        if address:
            errors.append(required(f"{field}.ipMode", "must be specified when `ip` is set"))
    elif not address:
        errors.append(forbidden(f"{field}.ipMode", "may not be specified when `ip` is not set"))
    elif mode not in ("Proxy", "VIP"):
        errors.append(not_supported(f"{field}.ipMode", mode, ("Proxy", "VIP")))
    if host:
        errors += [invalid(f"{field}.hostname", host, text) for text in dns_subdomain(host)]
        if not validate_ip(host, field):
            errors.append(invalid(f"{field}.hostname", host, "must be a DNS name, not an IP address"))
    return errors
