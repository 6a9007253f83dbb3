"""Mistakes in a spec that the constructors refuse. tests/kcm/typed.py contains those that mypy refuses."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from kcm.actors.app.system import ControllerSystem
from kcm.actors.controllers.built_in import BUILT_IN
from kcm.actors.reconciliation import Watch, itself
from kcm.actors.reconciliation.specs import ControllerSpec, Pass, Queue
from kcm.protocols.messages.outcomes import Invalid
from kcm.protocols.resources import PODS


def test_queues_with_the_same_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two queues, passes or sources of x-controller have one name"):
        ControllerSpec(name="x-controller", build=lambda _context: None, queues=(Queue("x"), Queue("x")))


def test_single_value_instead_of_a_tuple_is_refused() -> None:
    watch = Watch(PODS, to=itself)
    with pytest.raises(TypeError, match="watches of queue 'x': expected a tuple, got Watch"):
        Queue("x", watches=watch)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="queues of x-controller: expected a tuple, got Queue"):
        ControllerSpec(name="x-controller", build=lambda _context: None, queues=Queue("x"))  # type: ignore[arg-type]


def nothing(_: Any) -> Any:
    return None


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: ControllerSpec(name="a", build=None), "a: build is a function, not None"),  # type: ignore[arg-type]
        (lambda: ControllerSpec(name="", build=nothing), "a controller has a name, got ''"),
        (
            lambda: ControllerSpec(name="a", build=nothing, enabled_if=True),  # type: ignore[arg-type]
            "a: enabled_if is a function, not True",
        ),
        (lambda: Queue("q", concurrency="5"), "queue 'q': concurrency is a number, or a function of the options"),  # type: ignore[arg-type]
        (lambda: Queue("q", concurrency=0), "queue 'q': concurrency is above 0, not 0"),
        (lambda: Queue("q", max_retries=-1), "max_retries of queue 'q' takes a number of at least 0, not -1"),
        (lambda: Queue("q", retry_burst=0), "retry_burst of queue 'q' takes a number of at least 1, not 0"),
        (lambda: Queue("q", backoff=5), r"queue 'q': backoff is a Backoff\(first=…, most=…\), not 5"),  # type: ignore[arg-type]
        (lambda: Queue("q", terminal=(ValueError,)), "queue 'q': terminal are types of outcomes that are failures"),  # type: ignore[arg-type]
        (lambda: Queue("q", terminal=Invalid), "terminal of queue 'q': expected a tuple, got <class"),  # type: ignore[arg-type]
        (lambda: Pass("p", every=0.0, run=nothing), "pass 'p': every is above 0, not 0.0"),
        (lambda: ControllerSpec(name="a", build=nothing, resync="1h"), "a: resync is a number, or a function"),  # type: ignore[arg-type]
        (
            lambda: ControllerSpec(name="a", build=nothing, qps=0),
            "a: qps is not 0 and burst at least 1, got 0",
        ),
        (lambda: Watch(PODS, to=None), "watch of pods: to is a function, not None"),  # type: ignore[arg-type]
        (lambda: Watch("pods", to=itself), "a watch is of a Resource, not of 'pods'"),  # type: ignore[arg-type]
    ],
)
def test_uncallable_field_is_refused_at_construction(make: Any, error: str) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        make()


@pytest.mark.parametrize("spec", BUILT_IN, ids=lambda spec: spec.name)
def test_built_in_controllers_retry_all_errors_as_upstream(spec: ControllerSpec) -> None:
    # An admission policy that refuses with Invalid may be changed without an event for the key.
    assert all(queue.terminal == () for queue in spec.queues)


def test_the_help_of_a_system_does_not_show_every_spec() -> None:
    assert len(str(inspect.signature(ControllerSystem.__init__))) < 1000
    assert repr(BUILT_IN[0]) == f"<ControllerSpec {BUILT_IN[0].name}>"
