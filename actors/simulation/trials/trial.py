"""A controller's trial: everything that simulated runs know of it.

TRIAL = Trial(
    controller="website-controller",
    owns=(Owns(WEBSITES, DEPLOYMENTS),),
    actions=actions,
    unsettled=unsettled,
    end_state=end_state,
    invariants=lambda cluster, options: (OneDeploymentEach(),),
)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kcm.actors.options import Options
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.observer import Invariant
from kcm.actors.simulation.invariants.ownership import Owns
from kcm.actors.simulation.trials.scenario import NOTHING, Action, Scenario
from kcm.protocols.arguments import check_each, check_function, check_text, check_type
from kcm.protocols.late_methods import dataclass
from kcm.protocols.resources import Resource


def no_actions(_scenario: Scenario) -> Iterable[Action]:
    return ()


def _settled(_cluster: SimulatedCluster) -> Iterable[str]:
    return ()


def _no_end_state(_cluster: SimulatedCluster) -> Mapping[str, Any]:
    return NOTHING


def _no_invariants(_cluster: SimulatedCluster, _options: Options) -> Iterable[Invariant]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trial:
    """controller: its spec's name.

    actions: what its users do in a scenario. unsettled: what is not yet as the specs say it has to be; nothing once the
    controller has done its work. end_state: all that the actions alone determine, by a name for each part: equal in
    every run of a scenario, whatever goes wrong; names that are drawn, uids and times are left out.
    invariants: what must hold at every moment, beside what follows from `owns` and from being a controller.
    owns: which dependents it creates and deletes for which owners. deletes: resources of which it may delete objects
    that it does not own. deletes_any: it may delete objects of all resources; invariants of its own say which.
    raises: what its code may raise, beside CommandError: anything else is a violation.
    """

    controller: str
    actions: Callable[[Scenario], Iterable[Action]] = no_actions
    unsettled: Callable[[SimulatedCluster], Iterable[str]] = _settled
    end_state: Callable[[SimulatedCluster], Mapping[str, Any]] = _no_end_state
    invariants: Callable[[SimulatedCluster, Options], Iterable[Invariant]] = _no_invariants
    owns: tuple[Owns, ...] = ()
    deletes: tuple[Resource, ...] = ()
    deletes_any: bool = False
    raises: tuple[type[Exception], ...] = ()

    def __post_init__(self) -> None:
        """Raises TypeError on a spec in place of its name, on a single one in place of a tuple, and on what cannot be
        called.
        """
        check_text("controller of a Trial", self.controller)
        about = f"the trial of {self.controller}"
        for what in ("actions", "unsettled", "end_state", "invariants"):
            check_function(f"{what} of {about}", getattr(self, what))
        check_each(f"owns of {about}", self.owns, lambda what, owns: check_type(what, owns, Owns, "an Owns"))
        check_each(
            f"deletes of {about}",
            self.deletes,
            lambda what, resource: check_type(what, resource, Resource, "a Resource"),
        )
        check_each(f"raises of {about}", self.raises, lambda what, error: check_type(what, error, type, "an exception"))
