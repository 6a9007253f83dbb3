"""Mutants of the controllers of Services."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from actors.controllers.network.endpointslice.reconciler import EndpointSliceReconciler
from actors.simulation.campaign.service_setting import SERVICES_TOO
from protocols.resources import ENDPOINT_SLICES
from runtime.simulation.plan import draw_stale_state
from runtime.tables.overlay import Tables
from tests.faults.mutants.mutant import Mutant


@contextmanager
def slices_are_read_from_a_late_cache() -> Iterator[None]:
    """Slices that were just written are not seen before the watch shows them, and their names are drawn anew."""
    build, number = EndpointSliceReconciler.__init__, itertools.count()

    def blind(self: EndpointSliceReconciler, *, tables: Tables, **more: Any) -> None:
        build(self, tables=tables, **more)
        overlay = tables.overlay(ENDPOINT_SLICES.id)
        assert overlay is not None
        self._slices = Tables({ENDPOINT_SLICES.id: overlay.table})[ENDPOINT_SLICES]

    def drawn(_owner: Any, count: int, **_: Any) -> list[str]:
        return [f"drawn-{next(number)}" for _ in range(count)]

    with (
        patch.object(EndpointSliceReconciler, "__init__", blind),
        patch("actors.controllers.network.shared.slice_writes.generated_names", drawn),
    ):
        yield


SERVICES = (
    Mutant(
        name="slices are made again while the watch is late",
        source="kubernetes/kubernetes#93374",
        mutation=slices_are_read_from_a_late_cache,
        setting=replace(SERVICES_TOO, draw=draw_stale_state),
    ),
)
