"""Undocumented names of pykka that kcm uses.

The version bounds in setup.cfg are wide. If a release moves one of these names, this test names it in one line, while a
hundred other tests fail because of it. Add further names here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pykka
import pytest

TAKES = [
    # pykka: runtime/system/actor.py and runtime/simulation/world.py
    (pykka.ThreadingActor._actor_loop, ("self",)),
    (pykka.ThreadingActor._actor_loop_setup, ("self",)),
    (pykka.ThreadingActor._actor_loop_running, ("self",)),
    (pykka.ThreadingActor._actor_loop_teardown, ("self",)),
    (pykka.ThreadingActor._handle_receive, ("self", "message")),
    (pykka.ThreadingActor._handle_failure, ("self", "exception_type", "exception_value", "traceback")),
    (pykka.ThreadingActor._create_actor_inbox, ()),
]


@pytest.mark.parametrize(("function", "parameters"), TAKES, ids=lambda value: getattr(value, "__qualname__", ""))
def test_private_apis_of_libraries_accept_our_arguments(
    function: Callable[..., Any], parameters: tuple[str, ...]
) -> None:
    assert set(parameters) <= set(inspect.signature(function).parameters)


def test_unstarted_actor_has_an_inbox_and_reports_whether_it_was_stopped() -> None:
    actor = pykka.ThreadingActor()
    assert actor.actor_inbox.empty()
    assert not actor.actor_stopped.is_set()
