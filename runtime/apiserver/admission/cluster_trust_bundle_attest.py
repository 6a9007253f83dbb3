"""ClusterTrustBundleAttest: require permission to attest for the signer of a ClusterTrustBundle.

Source: kubernetes plugin/pkg/admission/certificates/ctbattest/admission.go (v1.36).
"""

from __future__ import annotations

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.admission.refusal import forbidden
from kcm.runtime.apiserver.core.cluster import Cluster, RoutedRequest
from kcm.runtime.apiserver.kinds.rbac.shared.escalation import changes_only_gc_fields
from kcm.runtime.apiserver.registry.users import may_use_signer

BUNDLES = "clustertrustbundles.certificates.k8s.io"


def validate(cluster: Cluster, call: RoutedRequest, new: Object, old: Object | None = None) -> None:
    """Check the user's permission to write a ClusterTrustBundle for its signer. Raises StatusError (403).

    Bundles without a signer need no permission, nor do updates that change only finalizers and owner references.
    """
    definition = call.definition
    if definition.storage != BUNDLES:
        return
    signer = new["spec"].get("signerName") or ""
    if not signer or changes_only_gc_fields(new, old):
        return
    if not may_use_signer(cluster.authorize, call.user, "attest", signer):
        because = f'user not permitted to attest for signerName "{signer}"'
        raise forbidden(definition.group, definition.plural, new, because)
