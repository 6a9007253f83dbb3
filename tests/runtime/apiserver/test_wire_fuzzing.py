"""Random bytes on the sockets of a server take little of its memory, and delay other clients little.

For half an hour: `python -m tests.runtime.apiserver.wire_fuzzing`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runtime.apiserver.wire_fuzzing import Attack, Target, run


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    target = Target(tmp_path / "kcm")
    yield target
    target.stop()


def test_random_bytes_take_little_memory(target: Target) -> None:
    figures = run(target, seed=11, is_over=lambda figures: figures.rounds == 2, most_latency=None, per_round=30)
    assert figures.connections == 60
    assert figures.probes > 0


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_random_bytes_delay_other_clients_little(target: Target) -> None:
    run(target, seed=13, is_over=lambda figures: figures.rounds == 120)


def test_sent_bytes_are_determined_by_the_seed() -> None:
    def drawn(seed: int) -> list[bytes]:
        chance = random.Random(seed)
        return [Attack(chance, "token").bytes() for _ in range(5)]

    assert drawn(1) == drawn(1) != drawn(2)
