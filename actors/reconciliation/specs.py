"""How a controller presents itself to the system: its names, what it watches, how its reconciler is built.

GREETER = ControllerSpec(
    name="greeter-controller", watches=(Watch(CONFIGMAPS, to=itself),), build=lambda s: Greeter(tables=s.tables)
)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from actors.options import Options
from actors.reconciliation import Reconciler, Watch
from protocols.objects import Key
from protocols.resources import Resource
from runtime.metrics.registry import Metrics
from runtime.scheduling.clock import Clock
from runtime.system.actor_system import ActorSpec
from runtime.tables.overlay import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """All that a reconciler may be built from. Built anew for each incarnation of its actor."""

    tables: Tables
    clock: Clock
    log: FilteringBoundLogger
    metrics: Metrics
    options: Options


def _five(_options: Options) -> int:
    return 5


def _by_default(_options: Options) -> float | None:
    return None


def _always(_options: Options) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSpec:
    """One controller.

    name: canonical, as --controllers and logs have it. aliases: older names for the same.
    watches: which changes concern it; reads: further resources whose tables it reads, without being woken by them.
    first_keys: looked at as soon as it may act, whatever there is: of passes, which RequeueAfter keeps going.
    wanted: whether the options leave it anything to do; if not it does not run, as if switched off.
    resync: seconds after which it looks at everything again; None for --min-resync-period and up to twice that.
    client: the API client in whose name and rate limit it writes; component: the source of its events; queue: its name
    in workqueue_* metrics; each is the name's first part where left empty. concurrency: keys in work at once.
    max_retries: failures in a row after which a key waits for its next event; None is never.
    children: kinds of actors that it may ask the manager for (StartChild): how to build one, by its name. Its
    surroundings have no overlay in common with the controller's.
    """

    name: str
    watches: tuple[Watch, ...]
    build: Callable[[Surroundings], Reconciler]
    reads: tuple[Resource, ...] = ()
    first_keys: tuple[Key, ...] = ()
    wanted: Callable[[Options], bool] = _always
    resync: Callable[[Options], float | None] = _by_default
    aliases: tuple[str, ...] = ()
    client: str = ""
    component: str = ""
    queue: str = ""
    concurrency: Callable[[Options], int] = _five
    on_by_default: bool = True
    max_retries: int | None = None
    children: Mapping[str, Callable[[str, Surroundings], ActorSpec]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises TypeError on ("x") for ("x",): each letter of a text would be an alias."""
        for what, given in (("aliases", self.aliases), ("watches", self.watches), ("reads", self.reads)):
            _refuse_single(f"{what} of {self.name}", given)

    @property
    def resources(self) -> tuple[Resource, ...]:
        """All that it reads, each once, in the order named."""
        return tuple(dict.fromkeys([*(watch.resource for watch in self.watches), *self.reads]))


def _refuse_single(what: str, given: object) -> None:
    if not isinstance(given, tuple | list):
        raise TypeError(f"{what}: expected a tuple, got {given!r}")
