"""Sampler of traces. Imports opentelemetry-sdk, so it is imported late."""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.context import Context
from opentelemetry.sdk.trace.sampling import Decision, ParentBased, Sampler, SamplingResult, TraceIdRatioBased
from opentelemetry.trace import Link, SpanKind, TraceState
from opentelemetry.util.types import Attributes


class CauseSampler(Sampler):
    """Samples a span if its parent or a linked span is sampled, and a fraction of the spans without either.

    A reconciliation is linked to the writes that caused it. As it is sampled if one of them is, a sampled chain of
    causes is complete.
    """

    def __init__(self, rate: float) -> None:
        """Create the sampler. rate: fraction of the traces without a sampled cause, 0 to 1."""
        self._rate = rate
        self._otherwise = ParentBased(TraceIdRatioBased(rate))

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        if any(link.context.trace_flags.sampled for link in links or ()):
            return SamplingResult(Decision.RECORD_AND_SAMPLE, attributes)
        return self._otherwise.should_sample(parent_context, trace_id, name, kind, attributes, links, trace_state)

    def get_description(self) -> str:
        return f"CauseSampler{{{self._rate}}}"
