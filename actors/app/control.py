"""Pages that show and change a running system, by collection: controllers, zones, clients and the storm brake."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial

from msgspec import Struct

from kcm.actors.app.controller_changes import change_controller
from kcm.actors.app.controller_states import StateReader
from kcm.actors.app.rate_states import RateReader
from kcm.actors.reconciliation.actor_names import MANAGER
from kcm.actors.reconciliation.specs import ControllerSpec
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.scheduling.limiters import StormBrake
from kcm.runtime.serving.debug_pages import ChangeRefusedError, PendingChange
from kcm.runtime.system.actor_system import ActorSystem
from kcm.runtime.system.vitals import Vitals


class SystemControl:
    """Implements `shown` and `change` of RunningSystem."""

    def __init__(
        self,
        *,
        specs: Sequence[ControllerSpec],
        states: StateReader,
        actors: ActorSystem,
        vitals: Vitals,
        brake: StormBrake,
        clock: Clock,
        lease_clients: Collection[str],
    ) -> None:
        self._specs, self._states, self._actors = tuple(specs), states, actors
        self._rates = RateReader(actors=actors, vitals=vitals, brake=brake, clock=clock, lease_clients=lease_clients)

    def shown(self, collection: str, name: str) -> Struct:
        match collection:
            case "controllers":
                return self._states.details(self._spec(name)) if name else self._states.system()
            case "zones":
                return self._rates.zone(name) if name else self._rates.zones()
            case "clients":
                return self._rates.client(name) if name else self._rates.clients()
            case _:
                return self._rates.brake()

    def change(self, collection: str, name: str, action: str, settings: Mapping[str, object]) -> PendingChange:
        if collection == "controllers":
            spec = self._spec(name)
            if settings:
                raise ValueError(f"{action} takes no settings, and got {', '.join(settings)}")
            return change_controller(spec, action, states=self._states, tell=partial(self._actors.tell, MANAGER))
        leader = self._states.leader()
        if leader is not None:
            raise ChangeRefusedError(f"this process does not lead; the leader is {leader or 'unknown'}")
        match collection:
            case "zones":
                return self._rates.change_zone(name, action, settings)
            case "clients":
                return self._rates.change_client(name, action, settings)
            case _:
                return self._rates.change_brake(action, settings)

    def _spec(self, name: str) -> ControllerSpec:
        """Return the spec with this name or alias. Raises LookupError."""
        spec = next((spec for spec in self._specs if name in (spec.name, *spec.aliases)), None)
        if spec is None:
            raise LookupError(f'controllers "{name}" not found')
        return spec
