"""Stacks and profiles of the running process."""

from __future__ import annotations

import threading
from collections import Counter

from runtime.serving import profiling
from tests.runtime.serving.conftest import Ask


def test_threads_are_shown_with_their_names_and_stacks(ask: Ask) -> None:
    for path in ("/debug/pprof/goroutine?debug=2", "/debug/pprof/threads"):
        text = ask(path).text
        assert f"[{threading.current_thread().name}]:" in text
        assert "thread_stacks" in text


def test_samples_are_collapsed_stacks() -> None:
    counts: Counter[str] = Counter()
    for _ in range(2):
        profiling.sample(counts, leave_out=None)
    mine = [line for line in profiling.collapsed(counts).splitlines() if "test_samples_are_collapsed_stacks" in line]
    stack, _, count = mine[0].rpartition(" ")
    assert stack.startswith(f"{threading.current_thread().name};")
    assert stack.endswith("profiling.sample")
    assert int(count) == 2
    profiling.sample(counts, leave_out=threading.get_ident())
    assert sum(count for stack, count in counts.items() if "test_samples" in stack) == 2


def test_a_profile_takes_the_time_that_was_asked_for(ask: Ask) -> None:
    assert ask("/debug/pprof/profile?seconds=0").text == ""
    assert ask("/debug/pprof/profile?seconds=soon").status == 400
