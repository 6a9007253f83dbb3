"""Cost of traces: python -m tests.bench.traces

Measures the processor time of what traces add to a reconciliation that one watch event enqueued and that makes one
write, by sampling rate. It includes the thread that sends the spans by OTLP over HTTP to a collector, which is another
process.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

import orjson

from kcm.actors.engine.controller import ControllerSettings, QueueSettings
from kcm.actors.engine.spans import Tracing
from kcm.actors.reconciliation import Change, Watch, itself
from kcm.protocols.messages.commands import Create, Submit
from kcm.protocols.messages.outcomes import Done
from kcm.protocols.messages.watches import EventType
from kcm.protocols.resources import PODS
from kcm.runtime.client.api import Request
from kcm.runtime.logs.standard_log import quiet_log
from kcm.runtime.scheduling.clock import SystemClock
from kcm.runtime.scheduling.work_queue import WorkQueue
from kcm.runtime.tables.tables import Tables
from kcm.runtime.tracing.configuration import TracingConfiguration
from kcm.runtime.tracing.provider import OpenTracer

ROUNDS, RECONCILIATIONS = 15, 900  # the exporter's queue takes 2,048 spans, and drops further ones
RATES = (0.0, 0.01, 1.0)
COLLECTOR = """
from tests.support.collector import Collector
collector = Collector()
print(collector.url, flush=True)
collector.server.serve_forever()
"""
ACTOR, QUEUE = "controller:bench", "bench"
META = {"name": "a", "namespace": "default", "uid": "e3a1b0a2-6c1f-4e1d-8a57-2f1c3d4b5a69", "resourceVersion": "5"}
POD = orjson.dumps({"metadata": META, "spec": {"containers": [{"name": "c", "image": "i"}]}})
CREATE, DONE = Create(PODS.id, "default", POD), Done(POD)
REQUEST = Request(method="POST", path="/api/v1/namespaces/default/pods", body=POD)


def reconciliation_seconds(rate: float, url: str) -> float:
    """Return the processor seconds that traces cost for one reconciliation."""
    configuration = TracingConfiguration(url=url, sampling_rate=rate)
    opened = OpenTracer(configuration, service="bench", instance="bench", version="1", log=quiet_log())
    tracing = Tracing(opened.tracer, clock=SystemClock(), handled_now=lambda: 0)
    settings = ControllerSettings(
        name="bench",
        client="bench",
        component="bench",
        queues=(QueueSettings(name=QUEUE, watches=(Watch(PODS, itself),)),),
    )
    tables = Tables({})
    queues = {QUEUE: WorkQueue[str](now=0.0)}
    [(watch, _)] = tracing.follow(ACTOR, 1, settings=settings, tables=tables, queues=queues)
    began = time.process_time()
    for number in range(RECONCILIATIONS):
        key = f"default/{number}"
        watch.to(Change(type=EventType.ADDED, key=key, raw=POD, controller=None), tables)
        tracing.begin(ACTOR, QUEUE, key)
        for span in tracing.begin_writes(Submit(ACTOR, 1, "bench", number, (CREATE,), QUEUE, key), 0) or ():
            span.sent(REQUEST)
            span.responded(201)
            span.end(DONE)
        tracing.end(ACTOR, QUEUE, key, None)
    opened.close()
    return (time.process_time() - began) / RECONCILIATIONS


def main() -> None:
    with subprocess.Popen([sys.executable, "-c", COLLECTOR], stdout=subprocess.PIPE) as collector:
        assert collector.stdout is not None
        url = collector.stdout.readline().decode().strip()
        measured: dict[float, list[float]] = {rate: [] for rate in RATES}
        try:
            for _ in range(ROUNDS):
                for rate, values in measured.items():
                    values.append(reconciliation_seconds(rate, url))
        finally:
            collector.terminate()
    for rate, values in measured.items():
        median, least = statistics.median(values) * 1e6, min(values) * 1e6
        print(f"sampling {rate:.0%}: {median:.1f} µs a reconciliation with one write, at least {least:.1f}")


if __name__ == "__main__":
    main()
