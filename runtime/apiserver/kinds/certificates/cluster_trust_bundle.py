"""ClusterTrustBundles (certificates.k8s.io/v1beta1): validation and table columns.

Source: kubernetes pkg/registry/certificates/clustertrustbundle/{strategy.go,storage/storage.go},
pkg/apis/certificates/validation/validation.go (ValidateClusterTrustBundle), pkg/apis/core/validation/names.go,
pkg/printers/internalversion/printers.go (printClusterTrustBundle) (v1.36). Difference: the syntax of spec.signerName is
checked only as part of the object's name.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid, too_long
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import NAME, Column, Printer
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import NONE, name_cell, part
from kcm.runtime.apiserver.rules.names import dns_subdomain
from kcm.runtime.apiserver.rules.object_meta import IMMUTABLE
from kcm.runtime.apiserver.rules.selectable_fields import fields_at
from kcm.runtime.x509.pem import Block, blocks

LARGEST = 1024 * 1024  # bytes
BUNDLE = "spec.trustBundle"
OMITTED = "<value omitted>"


def validate(bundle: Object) -> list[FieldError]:
    return [*_validate_names(bundle), *_validate_bundle(bundle["spec"].get("trustBundle", ""))]


def validate_update(new: Object, old: Object) -> list[FieldError]:
    """Validate an update of a ClusterTrustBundle. An unchanged trust bundle is not parsed again."""
    now, before = new["spec"], old["spec"]
    errors = _validate_names(new)
    if now.get("trustBundle") != before.get("trustBundle"):
        errors += _validate_bundle(now.get("trustBundle", ""))
    if now.get("signerName", "") != before.get("signerName", ""):
        errors.append(invalid("spec.signerName", now.get("signerName", ""), IMMUTABLE))
    return errors


def _validate_names(bundle: Object) -> list[FieldError]:
    name, signer = bundle["metadata"]["name"], bundle["spec"].get("signerName", "")
    prefix = f"{signer.replace('/', ':')}:" if signer else ""
    if not signer and ":" in name:
        problems = ['ClusterTrustBundle without signer name must not have ":" in its name']
    elif not name.startswith(prefix):
        problems = [f"ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}"]
    else:
        problems = dns_subdomain(name.removeprefix(prefix))
    return [invalid("metadata.name", name, problem) for problem in problems]


def _validate_bundle(text: str) -> list[FieldError]:
    if len(text.encode()) > LARGEST:
        return [too_long(BUNDLE, LARGEST)]
    found = list(blocks(text.encode()))
    problems = [f"entry {number} {problem}" for number, block in enumerate(found) if (problem := _problem(block))]
    if not problems:
        numbers = defaultdict(list)
        for number, block in enumerate(found):
            numbers[block.data].append(number)
        problems = [
            f"duplicate trust anchor (indices [{' '.join(map(str, same))}])"
            for same in numbers.values()
            if len(same) > 1
        ]
    if not found:
        problems = ["at least one trust anchor must be provided"]
    return [invalid(BUNDLE, OMITTED, problem) for problem in problems]


def _problem(block: Block) -> str:
    """Return the error text of a PEM block; "" if it is a valid CA certificate."""
    if block.type != "CERTIFICATE":
        return f"has bad block type: {block.type}"
    if block.has_headers:
        return "has PEM block headers"
    from cryptography import x509  # a heavy import, and trust bundles are rare

    try:
        certificate = x509.load_der_x509_certificate(block.data)
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    except x509.ExtensionNotFound:
        return "does not have the CA bit set"
    except ValueError:
        return "does not parse as X.509"
    return "" if constraints.ca else "does not have the CA bit set"


def cells(bundle: Object, now: float) -> list[Any]:  # noqa: ARG001
    return [name_cell(bundle), part(bundle, "spec").get("signerName") or NONE]


RESOURCE = ResourceDefinition(
    group="certificates.k8s.io",
    version="v1beta1",
    plural="clustertrustbundles",
    kind="ClusterTrustBundle",
    namespaced=False,
    strategy=Strategy(
        validate=validate,
        validate_update=validate_update,
        allow_unconditional_update=False,
        selectable_fields=fields_at("spec.signerName"),
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("SignerName"),
        ),
        cells=cells,
    ),
)
