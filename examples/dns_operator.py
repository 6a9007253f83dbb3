"""DNS operator: a DnsRecord is published by a provider outside the cluster, for as long as it exists.

python examples/dns_service.py &
run-kcm dev examples/dns_operator.py:dns_spec

Its CustomResourceDefinition, its role and its Deployment are generated from this file:
run-kcm manifests --name dns-operator examples/dns_operator.py:dns_spec | kubectl apply -f -
"""

import sys
from dataclasses import dataclass
from typing import Annotated, Literal

from dns_service import DnsClient, DnsProvider
from msgspec import Meta

from kcm import ControllerSpec, Key, Queue, Reconciliation, RequeueAfter, Resource, Watch, main
from kcm.commands import record
from kcm.manifests import CelRule, Definition, Permission, PrinterColumn, cel
from kcm.objects import ObjectMeta
from kcm.specs import ControllerContext, ControllerOptions, flag, itself
from kcm.steps import call, finalize, patch_status

KEPT = cel("self == oldSelf", "cannot be changed; create another DnsRecord")
PUBLISHED = "example.com/published"  # the finalizer
SOON = RequeueAfter(1.0)  # no event reports that all name servers have the record, or that a name is free
LATER = RequeueAfter(60.0)  # nor that the record was edited at the provider


@dataclass(frozen=True)
class Spec:
    name: Annotated[str, Meta(pattern=r"^([a-z0-9_-]+\.)+[a-z]+$", max_length=253), KEPT]
    values: Annotated[list[Annotated[str, Meta(min_length=1, max_length=255)]], Meta(min_length=1, max_length=16)]
    type: Annotated[Literal["A", "AAAA", "CNAME", "TXT"], KEPT] = "A"
    ttl: Annotated[int, Meta(ge=30, le=86_400)] = 300


@dataclass(frozen=True)
class Status:
    state: str = ""
    observedGeneration: int = 0  # noqa: N815 (the name in the API)


@dataclass(frozen=True)
class DnsRecord:
    """Record of a DNS zone at a provider."""

    metadata: ObjectMeta
    spec: Spec
    status: Status = Status()


RECORDS = Resource(group="example.com", version="v1", plural="dnsrecords", kind="DnsRecord", model=DnsRecord)


class DnsOptions(ControllerOptions, frozen=True, kw_only=True):
    provider: str = flag("http://127.0.0.1:8053", "URL of the DNS provider.", name="dns-provider")


class DnsRecords:
    def __init__(self, context: ControllerContext, provider: DnsProvider | None) -> None:
        self._records = context.tables[RECORDS]
        self._provider = provider or DnsClient(context.options[DnsOptions].provider)

    def reconcile(self, key: Key) -> Reconciliation:
        found = yield from finalize(self._records, key, PUBLISHED, self._provider.delete, timeout=10)
        if found is None:
            return None
        spec, generation = found.spec, found.metadata.generation or 0
        # The uid is the number: a namesake, or a DnsRecord of another namespace, does not take over the record.
        body = {"name": spec.name, "type": spec.type, "values": spec.values, "ttl": spec.ttl, "generation": generation}
        answer = yield from call(self._provider.put, found.metadata.uid or "", body, timeout=10)
        state = answer["state"]
        yield from patch_status(self._records, found, {"state": state, "observedGeneration": generation})
        if state != found.status.state:
            message = f"{spec.name} {spec.type} is {state.lower()}"
            yield record(RECORDS, found, "Warning" if state == "Taken" else "Normal", state, message)
        return LATER if state == "Active" else SOON


def dns_spec(provider: DnsProvider | None = None) -> ControllerSpec:
    """Return the controller. provider: None for a client of the one that --dns-provider names."""
    return ControllerSpec(
        name="dns-controller",
        queues=(Queue(watches=(Watch(RECORDS, to=itself),)),),
        options=DnsOptions,
        build=lambda context: DnsRecords(context, provider),
        permissions=(Permission(RECORDS, ("patch",)), Permission(RECORDS, ("patch",), "status")),
        definitions=(
            Definition(
                RECORDS,
                short_names=("dns",),
                columns=(PrinterColumn("Name", ".spec.name"), PrinterColumn("State", ".status.state")),
                rules=(CelRule("self.type != 'CNAME' || self.values.size() == 1", "a CNAME has one value", at="spec"),),
            ),
        ),
    )


if __name__ == "__main__":
    sys.exit(main([dns_spec()], name="dns-operator"))
