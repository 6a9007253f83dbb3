"""Builders of recommendations, scale events and policies. Times are in seconds before NOW."""

from __future__ import annotations

from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.behavior import (
    Recommendation,
    ScaleEvent,
    ScalingPolicy,
)

NOW = 10_000.0


def pods(value: int, period: float = 60) -> ScalingPolicy:
    return ScalingPolicy(False, value, period)


def percent(value: int, period: float = 60) -> ScalingPolicy:
    return ScalingPolicy(True, value, period)


def ago(*changes: tuple[int, float]) -> tuple[ScaleEvent, ...]:
    return tuple(ScaleEvent(by, NOW - seconds) for by, seconds in changes)


def spread(*changes: int, over: float = 120) -> tuple[ScaleEvent, ...]:
    """Return scale events, the oldest first, each in the middle of an equal part of the time."""
    part = over / len(changes) if changes else 0.0
    return ago(*((by, over - part * (number + 0.5)) for number, by in enumerate(changes)))


def recommended(*recommendations: tuple[int, float]) -> tuple[Recommendation, ...]:
    return tuple(Recommendation(replicas, NOW - seconds) for replicas, seconds in recommendations)
