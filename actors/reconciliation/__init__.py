"""The API that controllers are written in: specs, commands, steps and outcomes.

    class Greeter:
        def __init__(self, *, tables: Tables) -> None:
            self._configmaps = tables[CONFIGMAPS]

        def reconcile(self, key: Key) -> Reconciliation:
            configmap = self._configmaps.get(key)
            if configmap is None:
                return None
            yield from must(patch(CONFIGMAPS, key, {"data": {"greeting": "hello"}}))
            return RequeueAfter(60.0)

`reconcile` is a generator. It yields a Command and receives its Outcome, or a list of commands, which are sent
together, and receives the list of their outcomes in the same order. It may also yield a Record (an event), a `Tell`
(a message to another actor), an Enqueue (a key for a queue of the controller) or a Because (the reason of a decision,
for people), which have no outcome. It may be closed between any two yields and run again later, so it depends on the
current state, not on events. An exception is logged and counted, and the key is retried with backoff.

`async def reconcile` is the same with `await` instead of `yield` and `yield from`.
"""

from kcm.actors.reconciliation.commands import (
    apply,
    create,
    delete,
    get_live,
    list_live,
    merge_status,
    patch,
    record,
    update,
)
from kcm.actors.reconciliation.discovered import Discovered
from kcm.actors.reconciliation.failures import Retry, RetryQuietly, TerminalError
from kcm.actors.reconciliation.object_steps import (
    ensure,
    ensure_finalizer,
    finalize,
    patch_status,
    remove_finalizer,
)
from kcm.actors.reconciliation.outside import answer_of, call, outside
from kcm.actors.reconciliation.owners import controlled_by, own, owned
from kcm.actors.reconciliation.reconciler import (
    AsyncReconciliation,
    Because,
    Debuggable,
    DebugPage,
    Enqueue,
    Receiver,
    Reconciler,
    Reconciliation,
    RequeueAfter,
    Running,
    Step,
    Tell,
    Word,
    step,
)
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Facts, Index, Pass, Queue, Source
from kcm.actors.reconciliation.steps import (
    batches,
    in_batches,
    must,
    must_all,
    must_object,
    perform,
    slow_start,
    together,
)
from kcm.actors.reconciliation.watches import Change, Read, Watch, its_controller, itself
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.outcomes import (
    AlreadyExists,
    Conflict,
    Done,
    Forbidden,
    Invalid,
    NotFound,
    Outcome,
    Unknown,
)
from kcm.protocols.messages.watches import EVERYTHING, ORPHANS, Interest
from kcm.protocols.objects import Key, Object
from kcm.protocols.resources import Resource
from kcm.runtime.tables.lister import Lister
from kcm.runtime.tables.tables import Tables

__all__ = [
    "EVERYTHING",
    "ORPHANS",
    "AlreadyExists",
    "AsyncReconciliation",
    "Because",
    "Change",
    "CommandError",
    "Conflict",
    "ControllerContext",
    "ControllerSpec",
    "DebugPage",
    "Debuggable",
    "Discovered",
    "Done",
    "Enqueue",
    "Facts",
    "Forbidden",
    "Index",
    "Interest",
    "Invalid",
    "Key",
    "Lister",
    "NotFound",
    "Object",
    "Outcome",
    "Pass",
    "Queue",
    "Read",
    "Receiver",
    "Reconciler",
    "Reconciliation",
    "RequeueAfter",
    "Resource",
    "Retry",
    "RetryQuietly",
    "Running",
    "Source",
    "Step",
    "Tables",
    "Tell",
    "TerminalError",
    "Unknown",
    "Watch",
    "Word",
    "answer_of",
    "apply",
    "batches",
    "call",
    "controlled_by",
    "create",
    "delete",
    "ensure",
    "ensure_finalizer",
    "finalize",
    "get_live",
    "in_batches",
    "its_controller",
    "itself",
    "list_live",
    "merge_status",
    "must",
    "must_all",
    "must_object",
    "outside",
    "own",
    "owned",
    "patch",
    "patch_status",
    "perform",
    "record",
    "remove_finalizer",
    "slow_start",
    "step",
    "together",
    "update",
]
