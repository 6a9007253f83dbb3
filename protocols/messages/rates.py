"""Messages by which operators change rate limits of writes."""

from __future__ import annotations

from kcm.protocols.messages.message import Message


class SetClientRate(Message, frozen=True, tag=150):
    """Change the rate limit of an API client. Operator → dispatcher.

    client: with its cluster in front, "edge:job-controller", if the program works on several.
    qps, burst: None for the value of the flags.
    """

    client: str
    qps: float | None = None
    burst: int | None = None


class EngageBrake(Message, frozen=True, tag=151):
    """Hold back deletions and evictions of all controllers until ReleaseBrake. Operator → dispatcher.

    qps: of these writes that are let through; None for the value of the flags.
    """

    qps: float | None = None


class ReleaseBrake(Message, frozen=True, tag=152):
    """Send what was held back, and count further deletions and evictions from 0. Operator → dispatcher."""
