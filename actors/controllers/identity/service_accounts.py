"""Service account controller: creates the ServiceAccount "default" in each namespace.

Input: namespaces, deletions of ServiceAccounts. Output: ServiceAccounts. Key: the name of a namespace.

Source: kubernetes v1.36 pkg/controller/serviceaccount/serviceaccounts_controller.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kcm.actors.controllers.identity.options import ServiceAccountOptions
from kcm.actors.controllers.shared.pod_control import is_namespace_terminating
from kcm.actors.reconciliation import Because, Change, Interest, Reconciliation, Watch, create, itself
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Queue
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.outcomes import AlreadyExists, Done
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Key, make_key
from kcm.protocols.resources import NAMESPACES, SERVICE_ACCOUNTS
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

NAME = "default"
ACTIVE = "Active"


class ServiceAccounts:
    def __init__(self, *, tables: Tables, log: FilteringBoundLogger) -> None:
        self._namespaces, self._accounts = tables[NAMESPACES], tables[SERVICE_ACCOUNTS]
        self._log = log

    def reconcile(self, namespace: Key) -> Reconciliation:
        found = self._namespaces.get(namespace)
        if found is None or (found.get("status") or {}).get("phase") != ACTIVE:
            return None
        key = make_key(namespace, NAME)
        self._accounts.require(key)
        if self._accounts.entry(key) is not None:
            return None
        yield Because("has no service account default: creates it")
        creation = create(SERVICE_ACCOUNTS, {"metadata": {"name": NAME, "namespace": namespace}})
        outcome = yield creation
        if isinstance(outcome, Done):
            self._log.info("service account created", v=2, key=key)
        elif not isinstance(outcome, AlreadyExists) and not is_namespace_terminating(outcome):
            raise CommandError(creation, outcome)
        return None


def its_namespace(change: Change, _tables: Tables) -> Iterable[Key]:
    return (change.namespace,)


def build(context: ControllerContext) -> ServiceAccounts:
    return ServiceAccounts(tables=context.tables, log=context.log)


SPEC = ControllerSpec(
    name="serviceaccount-controller",
    aliases=("serviceaccount",),
    never_blocks=True,
    client="service-account-controller",
    build=build,
    options=ServiceAccountOptions,
    queues=(
        Queue(
            "serviceaccount",
            watches=(
                Watch(NAMESPACES, to=itself),
                Watch(SERVICE_ACCOUNTS, to=its_namespace, interest=Interest(types=(EventType.DELETED,))),
            ),
            concurrency=1,
            terminal=(),
        ),
    ),
)
