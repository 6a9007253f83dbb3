"""Controllers that watch pods but enqueue no keys. The fan-out benchmark installs them beside the built-in ones.

KCM_BENCH_WATCHERS is their number. With KCM_BENCH_EVERYTHING they declare no interest, and receive every change.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import product

from kcm.actors.reconciliation import EVERYTHING, Change, Interest, Reconciliation, Watch
from kcm.actors.reconciliation.specs import ControllerSpec, Queue
from kcm.protocols.objects import Key
from kcm.protocols.resources import PODS
from kcm.runtime.tables.tables import Tables

OWNERS = ("Job", "DaemonSet", "StatefulSet", "CronJob", "Workflow", "Function")
CHANGED = ((), ("phase",), ("ready", "deleting"), ("node",))


class Idle:
    def reconcile(self, key: Key) -> Reconciliation:
        yield from ()
        raise AssertionError(f"unexpected key {key}: this controller enqueues none")


def no_keys(_change: Change, _tables: Tables) -> Iterable[Key]:
    return ()


def watchers(count: int, *, everything: bool) -> list[ControllerSpec]:
    interests = [Interest(owner_kinds=(owner,), changed=changed) for changed, owner in product(CHANGED, OWNERS)]
    return [
        ControllerSpec(
            name=f"bench-watcher-{number}-controller",
            build=lambda _context: Idle(),
            queues=(Queue(watches=(Watch(PODS, to=no_keys, interest=EVERYTHING if everything else interest),)),),
        )
        for number, interest in enumerate(interests[:count])
    ]


WATCHERS = watchers(int(os.environ.get("KCM_BENCH_WATCHERS", "0")), everything="KCM_BENCH_EVERYTHING" in os.environ)
