"""What kube-apiserver's bootstrap roles let the service account of each controller do, and an invariant that holds
controllers to it: with --use-service-account-credentials a request beyond that is refused.

Source: clusterroles system:controller:… and system:kube-controller-manager of a kube-apiserver 1.36 with the feature
gates ClusterTrustBundle and PodCertificateRequest; tests/e2e/test_bootstrap_roles.py compares them with those of the
server at hand. The group extensions is left out: nothing is served there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache

from actors.engine.elector.lease import CLIENT as ELECTIONS
from actors.reconciliation.actor_names import INFORMERS
from actors.simulation.invariants.observing import Fail, Observation, Sent
from protocols.late_methods import dataclass
from runtime.client.api import Request

MANAGER = "kube-controller-manager"  # has the rights of the manager's own user
# Clients that act as that, whatever the flags say.
AS_MANAGER = frozenset({INFORMERS, ELECTIONS, "tokens-controller"})

# A role, and below it "verbs: resource[/subresource][.group][=name] …". EVENTS: what all but a few may do with events.
_ROLES = """
attachdetach-controller
  create delete get list watch: volumeattachments.storage.k8s.io
  EVENTS
  get list watch: csidrivers.storage.k8s.io csinodes.storage.k8s.io nodes
  list watch: persistentvolumeclaims persistentvolumes pods
  patch update: nodes/status
certificate-controller
  approve: signers.certificates.k8s.io=kubernetes.io/kube-apiserver-client-kubelet
  create: subjectaccessreviews.authorization.k8s.io
  EVENTS
  delete get list watch: certificatesigningrequests.certificates.k8s.io
  sign: signers.certificates.k8s.io=kubernetes.io/kube-apiserver-client
    signers.certificates.k8s.io=kubernetes.io/kube-apiserver-client-kubelet
    signers.certificates.k8s.io=kubernetes.io/kubelet-serving
    signers.certificates.k8s.io=kubernetes.io/legacy-unknown
  update: certificatesigningrequests/approval.certificates.k8s.io
    certificatesigningrequests/status.certificates.k8s.io
clusterrole-aggregation-controller
  escalate get list patch update watch: clusterroles.rbac.authorization.k8s.io
cronjob-controller
  create delete get list patch update watch: jobs.batch
  EVENTS
  delete list watch: pods
  get list update watch: cronjobs.batch
  update: cronjobs/finalizers.batch cronjobs/status.batch
daemon-set-controller
  create: pods/binding
  create delete get list patch update watch: controllerrevisions.apps
  create delete list patch watch: pods
  EVENTS
  get list watch: daemonsets.apps
  list watch: nodes
  update: daemonsets/finalizers.apps daemonsets/status.apps
deployment-controller
  create delete get list patch update watch: replicasets.apps
  EVENTS
  get list update watch: deployments.apps pods
  update: deployments/finalizers.apps deployments/status.apps
device-taint-eviction-controller
  EVENTS
  delete get list watch: pods
  get list watch: deviceclasses.resource.k8s.io resourceclaims.resource.k8s.io resourceslices.resource.k8s.io
  patch update: pods/status
disruption-controller
  EVENTS
  get: */scale.*
  get list watch: deployments.apps poddisruptionbudgets.policy replicasets.apps replicationcontrollers
    statefulsets.apps
  patch update: pods/status
  update: poddisruptionbudgets/status.policy
endpoint-controller
  create: endpoints/restricted
  create delete get list update watch: endpoints
  EVENTS
  get list watch: pods services
endpointslice-controller
  create: endpointslices/restricted.discovery.k8s.io
  create delete get list update watch: endpointslices.discovery.k8s.io
  EVENTS
  get list watch: nodes pods services
  update: services/finalizers
endpointslicemirroring-controller
  create: endpointslices/restricted.discovery.k8s.io
  create delete get list update watch: endpointslices.discovery.k8s.io
  EVENTS
  get list watch: endpoints services
  update: endpoints/finalizers services/finalizers
ephemeral-volume-controller
  create get list watch: persistentvolumeclaims
  EVENTS
  get list watch: pods
  update: pods/finalizers
expand-controller
  EVENTS
  get list patch update watch: persistentvolumes
  get list watch: persistentvolumeclaims
  patch update: persistentvolumeclaims/status
generic-garbage-collector
  EVENTS
  delete get list patch update watch: *.*
horizontal-pod-autoscaler
  EVENTS
  get list watch: *.custom.metrics.k8s.io *.external.metrics.k8s.io horizontalpodautoscalers.autoscaling
  get update: */scale.*
  list watch: pods pods.metrics.k8s.io
  update: horizontalpodautoscalers/status.autoscaling
job-controller
  create delete list patch watch: pods
  EVENTS
  get list patch update watch: jobs.batch
  update: jobs/finalizers.batch jobs/status.batch
kube-apiserver-serving-clustertrustbundle-publisher
  attest: signers.certificates.k8s.io=kubernetes.io/kube-apiserver-serving
  create delete list update watch: clustertrustbundles.certificates.k8s.io
  EVENTS
kube-controller-manager
  create: leases.coordination.k8s.io secrets serviceaccounts serviceaccounts/token
    subjectaccessreviews.authorization.k8s.io tokenreviews.authentication.k8s.io
  EVENTS
  delete: secrets
  get: configmaps namespaces secrets serviceaccounts
  get update: leases.coordination.k8s.io=kube-controller-manager
  list watch: *.*
  update: secrets serviceaccounts
legacy-service-account-token-cleaner
  delete patch: secrets
  get: configmaps=kube-apiserver-legacy-service-account-token-tracking
namespace-controller
  delete deletecollection get list watch: *.*
  delete get list watch: namespaces
  update: namespaces/finalize namespaces/status
node-controller
  EVENTS
  delete get list patch update watch: nodes
  delete get list watch: pods
  patch update: nodes/status pods/status
persistent-volume-binder
  create delete get list update watch: persistentvolumes
  create delete get list watch: pods
  EVENTS
  get list update watch: persistentvolumeclaims
  get list watch: storageclasses.storage.k8s.io
  list watch: nodes
  update: persistentvolumeclaims/status persistentvolumes/status
  watch: events
pod-garbage-collector
  delete list watch: pods
  get list watch: nodes
  patch: pods/status
podcertificaterequestcleaner
  delete get list watch: podcertificaterequests.certificates.k8s.io
pv-protection-controller
  EVENTS
  get list update watch: persistentvolumes
pvc-protection-controller
  EVENTS
  get list update watch: persistentvolumeclaims
  get list watch: pods
  update: persistentvolumeclaims/status
replicaset-controller
  create delete list patch watch: pods
  EVENTS
  get list update watch: replicasets.apps
  update: replicasets/finalizers.apps replicasets/status.apps
replication-controller
  create delete list patch watch: pods
  EVENTS
  get list update watch: replicationcontrollers
  update: replicationcontrollers/finalizers replicationcontrollers/status
resource-claim-controller
  create delete get list watch: resourceclaims.resource.k8s.io
  EVENTS
  get list watch: pods
  patch update: pods/status resourceclaims.resource.k8s.io resourceclaims/binding.resource.k8s.io
    resourceclaims/status.resource.k8s.io
  update: pods/finalizers
resourcequota-controller
  EVENTS
  list watch: *.*
  update: resourcequotas/status
root-ca-cert-publisher
  EVENTS
  create update: configmaps
route-controller
  EVENTS
  list watch: nodes
  patch: nodes/status
selinux-warning-controller
  EVENTS
  get list watch: csidrivers.storage.k8s.io persistentvolumeclaims persistentvolumes pods
service-account-controller
  create: serviceaccounts
  EVENTS
service-ca-cert-publisher
  EVENTS
  create update: configmaps
service-cidrs-controller
  EVENTS
  get list patch update watch: servicecidrs.networking.k8s.io
  get list watch: ipaddresses.networking.k8s.io
  patch update: servicecidrs/finalizers.networking.k8s.io servicecidrs/status.networking.k8s.io
service-controller
  EVENTS
  get list watch: services
  list watch: nodes
  patch update: services/status
statefulset-controller
  create delete get list patch update watch: controllerrevisions.apps
  create delete get patch update: pods
  create get list watch: persistentvolumeclaims
  EVENTS
  delete update: persistentvolumeclaims
  get list watch: statefulsets.apps
  list watch: pods
  update: pods/finalizers statefulsets/finalizers.apps statefulsets/status.apps
ttl-after-finished-controller
  EVENTS
  delete get list watch: jobs.batch
ttl-controller
  EVENTS
  list patch update watch: nodes
validatingadmissionpolicy-status-controller
  EVENTS
  get list watch: validatingadmissionpolicies.admissionregistration.k8s.io
  get patch update: validatingadmissionpolicies/status.admissionregistration.k8s.io
volumeattributesclass-protection-controller
  EVENTS
  get list update watch: volumeattributesclasses.storage.k8s.io
  get list watch: persistentvolumeclaims persistentvolumes
"""
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}


@dataclass(frozen=True, slots=True)
class Right:
    """resource: with its subresource. "*" is any. name: of the one object; "" for any."""

    verb: str
    group: str
    resource: str
    name: str = ""


@cache
def roles() -> Mapping[str, frozenset[Right]]:
    """By client."""
    found: dict[str, set[Right]] = {}
    role, line = "", ""
    for text in [*_ROLES.strip().splitlines(), ""]:
        if text.startswith("    "):
            line += text
            continue
        found.setdefault(role, set()).update(_rights(line))
        role, line = (text, "") if not text.startswith(" ") else (role, text)
    return {name: frozenset(rights) for name, rights in found.items() if name}


def _rights(line: str) -> Iterator[Right]:
    verbs, _, resources = line.replace("EVENTS", "create patch update: events events.events.k8s.io").partition(": ")
    for one in resources.split():
        what, _, name = one.partition("=")
        resource, _, group = what.partition(".")
        for verb in verbs.split():
            yield Right(verb, group, resource, name)


def wanted_right(request: Request) -> Right | None:
    """What its sender has to be allowed; None for what is no resource: discovery is for all."""
    root, *parts = request.path.strip("/").split("/")
    group = parts.pop(0) if root == "apis" and parts else ""
    if root not in ("api", "apis") or len(parts) < 2:
        return None
    parts = parts[1:]
    if len(parts) > 2 and parts[0] == "namespaces" and parts[2] not in ("status", "finalize"):
        parts = parts[2:]
    resource, name, *below = [*parts, ""] if len(parts) == 1 else parts
    verb = _VERBS.get(request.method, "")
    if request.method == "DELETE":
        verb = "delete" if name else "deletecollection"
    elif request.method == "GET":
        verb = "get" if name else "watch" if request.query.get("watch") else "list"
    return Right(verb, group, "/".join([resource, *below]), name)


def may(rights: frozenset[Right], wanted: Right) -> bool:
    subresource = wanted.resource.partition("/")[2]
    resources = {wanted.resource, "*", f"*/{subresource}"}
    return any(
        Right(wanted.verb, group, resource, name) in rights
        for group in {wanted.group, "*"}
        for resource in resources
        for name in {wanted.name, ""}
    )


class WithinItsRole:
    """No request is beyond what the bootstrap role of its client allows; clients without one are not looked at."""

    name = "requests are within bootstrap roles"
    observes = (Sent,)

    def __init__(self) -> None:
        self._known: dict[tuple[str, Right], bool] = {}

    def observe(self, observation: Observation, fail: Fail) -> None:
        if not isinstance(observation, Sent):
            return
        client, request = observation.client, observation.request
        rights, wanted = roles().get(MANAGER if client in AS_MANAGER else client), wanted_right(request)
        if rights is None or wanted is None:
            return
        if not any(right.name for right in rights):
            wanted = replace(wanted, name="")
        if (client, wanted) not in self._known:
            self._known[client, wanted] = may(rights, wanted)
        if not self._known[client, wanted]:
            fail(f"{client} may not {wanted.verb} {wanted.resource}: {request.method} {request.path}")
