"""Dataclasses whose methods are generated late behave as those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import threading
from collections.abc import Callable
from dataclasses import KW_ONLY, FrozenInstanceError, field
from functools import partial
from typing import Any, ClassVar

import pytest

from kcm.protocols.late_methods import dataclass, has_late_init

Decorator = Callable[..., Any]


def made_by(decorator: Decorator, **options: bool) -> Any:
    class Pod:
        """Example with fields of all kinds."""

        kind: ClassVar[str] = "Pod"
        name: str
        labels: dict[str, str] = field(default_factory=dict, hash=False)
        _: KW_ONLY
        ready: bool = False
        secret: str = field(default="", repr=False, compare=False)
        seen: int = field(default=0, init=False, compare=False)
        notes: list[str] = field(default_factory=list, init=False, compare=False)

    return decorator(**options)(Pod)


OPTIONS: list[dict[str, bool]] = [
    {},
    {"slots": True},
    {"frozen": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "kw_only": True},
    {"slots": True, "eq": False},
]


@pytest.fixture(params=OPTIONS, ids=lambda options: " ".join(options) or "plain")
def pair(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    """Return the same class, decorated by kcm and by the standard library."""
    return made_by(dataclass, **request.param), made_by(dataclasses.dataclass, **request.param)


def outcome(does: Callable[[], Any]) -> Any:
    try:
        return does()
    except Exception as err:
        return type(err), str(err)


USES: dict[str, Callable[[Any], Any]] = {
    "make": lambda pod: dataclasses.asdict(pod(name="a", labels={"app": "b"}, ready=True)),
    "make with defaults": lambda pod: dataclasses.astuple(pod(name="a")),
    "make by position": lambda pod: dataclasses.astuple(pod("a", {})),
    "lack a field": lambda pod: pod(),
    "one field too many": lambda pod: pod(name="a", phase="Running"),
    "repr": lambda pod: repr(pod(name="a", secret="s")),
    "equal": lambda pod: pod(name="a", secret="s") == pod(name="a"),
    "not equal": lambda pod: pod(name="a") != pod(name="b"),
    "equal to another": lambda pod: pod(name="a") == "a",
    "hash": lambda pod: len({pod(name="a"), pod(name="a", secret="s"), pod(name="b")}),
    "set": lambda pod: setattr(pod(name="a"), "name", "b"),
    "delete": lambda pod: delattr(pod(name="a"), "name"),
    "replace": lambda pod: repr(dataclasses.replace(pod(name="a"), ready=True)),
    "copy": lambda pod: repr(copy.copy(pod(name="a", ready=True))),
    "deepcopy": lambda pod: repr(copy.deepcopy(pod(name="a", labels={"app": "b"}))),
    "signature": lambda pod: str(inspect.signature(pod)),
    "match_args": lambda pod: pod.__match_args__,
    "params": lambda pod: repr(pod.__dataclass_params__),
    "doc": lambda pod: pod.__doc__,
    "class variable": lambda pod: pod.kind,
    "slots": lambda pod: getattr(pod, "__slots__", None),
    "names": lambda pod: (pod.__init__.__qualname__, pod.__repr__.__qualname__, pod.__init__.__name__),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_late_dataclass_behaves_as_the_standard_librarys(pair: tuple[Any, Any], use: Callable[[Any], Any]) -> None:
    ours, theirs = (outcome(partial(use, cls)) for cls in pair)
    assert str(ours).replace("made_by.", "") == str(theirs).replace("made_by.", "")


@dataclass(frozen=True, slots=True)
class Sent:
    key: str
    version: int = 0


def test_it_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(Sent("a/b", 7))) == Sent("a/b", 7)


def test_the_init_is_written_when_it_is_asked_for() -> None:
    @dataclass(frozen=True, slots=True)
    class Ask:
        key: str

    assert has_late_init(Ask)
    assert Ask("a") == Ask("a")
    assert not has_late_init(Ask)


@pytest.mark.parametrize("slots", [False, True])
def test_frozen_instance_refuses_further_attributes(*, slots: bool) -> None:
    # With slots, the class of the standard library raises a TypeError about super().
    with pytest.raises(FrozenInstanceError, match="'phase'"):
        made_by(dataclass, frozen=True, slots=slots)(name="a").phase = "Running"


def test_post_init_is_called() -> None:
    @dataclass(frozen=True)
    class Positive:
        number: int

        def __post_init__(self) -> None:
            if self.number <= 0:
                raise ValueError("not positive")

    assert Positive(1).number == 1
    with pytest.raises(ValueError, match="not positive"):
        Positive(0)


def test_a_class_of_anybodys_can_inherit_it() -> None:
    @dataclasses.dataclass(frozen=True)
    class Delete(Sent):
        uid: str = ""

    @dataclass(frozen=True)
    class Evict(Sent):
        grace: int = 0

    assert Delete("a", uid="u") == Delete("a", 0, "u")
    assert repr(Evict("a", grace=1)).endswith("Evict(key='a', version=0, grace=1)")
    with pytest.raises(FrozenInstanceError):
        Evict("a").key = "b"  # type: ignore[misc]


def test_an_ordinary_class_can_inherit_it_too() -> None:
    class Traced(Sent):
        pass

    assert Traced("a").key == "a"
    assert Traced("a") == Traced("a")
    assert Traced("a") != Sent("a")
    assert repr(Traced("a")).endswith("Traced(key='a', version=0)")


def test_a_method_of_its_own_stays() -> None:
    @dataclass(frozen=True, slots=True)
    class Token:
        value: str

        def __repr__(self) -> str:
            return "Token(…)"

    assert repr(Token("secret")) == "Token(…)"
    assert Token("a") == Token("a")


def test_threads_may_ask_for_a_method_at_once() -> None:
    for _ in range(20):

        @dataclass(frozen=True, slots=True)
        class Ask:
            key: str

        start, found = threading.Barrier(4), []

        def make(kind: Any = Ask, start: threading.Barrier = start, found: list[Any] = found) -> None:
            start.wait()
            found.append(kind("a"))

        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [Ask("a")] * 4
