"""Trial of a controller: how simulated runs use it and what they check.

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
    """Trial of one controller.

    controller: the name of its spec.
    actions: returns the user actions of a scenario.
    unsettled: yields what is not yet as the specs require; nothing once the controller has done its work.
    end_state: returns everything that the actions alone determine, by name: equal in every run of a scenario, with
        any faults. Generated names, uids and times are left out.
    invariants: conditions that are checked at every moment, beside those of `owns` and of every controller.
    owns: dependents that the controller creates and deletes, by owner.
    deletes: resources of which it may delete objects that it does not own.
    deletes_any: whether it may delete objects of all resources, limited by its own invariants.
    raises: exceptions that its code may raise, beside CommandError. Any other exception is a violation.
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
        """Raise TypeError for a spec instead of its name, a single value instead of a tuple, or a non-callable."""
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
