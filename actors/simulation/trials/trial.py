"""Declaration of how simulated runs use a controller, and what they check.

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

from msgspec import Struct

from kcm.actors.options import Options
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.observer import Invariant
from kcm.actors.simulation.invariants.ownership import Owns
from kcm.actors.simulation.trials.scenario import NOTHING, Action, Scenario
from kcm.protocols.arguments import check_each, check_function, check_text, check_type
from kcm.protocols.resources import Resource


def no_actions(_scenario: Scenario) -> Iterable[Action]:
    return ()


def _settled(_cluster: SimulatedCluster) -> Iterable[str]:
    return ()


def _no_end_state(_cluster: SimulatedCluster) -> Mapping[str, Any]:
    return NOTHING


def _no_invariants(_cluster: SimulatedCluster, _options: Options) -> Iterable[Invariant]:
    return ()


class Trial(Struct, frozen=True, kw_only=True, eq=False):
    """Test of one controller in simulated runs: user actions, expected results, and invariants.

    controller: name of the controller's spec.
    actions: returns the user actions of a scenario.
    unsettled: yields a text for each deviation from the desired state; nothing once the controller has done its work.
    end_state: returns the part of the final state that depends only on the user actions, as values by name. It must be
        equal in every run of a scenario, with any faults; so it contains no generated names, uids or times.
    invariants: returns conditions that are checked at every moment, in addition to those of every controller.
    owns: owners and dependents of the controller; several invariants are based on them.
    deletes: resources of which the controller may delete objects that it does not own.
    deletes_any: whether it may delete objects of all resources. Its own invariants should limit this.
    raises: exceptions that its code may raise in addition to CommandError. Any other exception is a violation.
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
        """Raise TypeError if a field has a wrong type."""
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
