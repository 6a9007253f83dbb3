"""Cost of a scene in counts that do not depend on the load of the machine.

Most containers and virtual machines do not give access to the processor's instruction counter, and its value differs
between builds of one Python version (instructions.py reads it nevertheless). The bytecode instructions and the calls of
C functions can be counted everywhere.
"""

from __future__ import annotations

import gc
import json
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import kcm.runtime.simulation
from tests.bench import http_scenes, scenes
from tests.bench.scenes import SCENES

MAX_FUNCTIONS = 60  # printed with --where
SIMULATOR = Path(kcm.runtime.simulation.__file__).parent

CODECS = frozenset({"loads", "dumps", "unpackb", "pack", "packb"})  # of orjson and msgpack
CODEC_MODULES = ("orjson", "msgpack")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Average cost of one unit of work."""

    bytecodes: float  # instructions of the interpreter
    c_calls: float  # calls of C functions
    codings: float  # C calls that encode or decode JSON or msgpack
    messages: float  # sent to actors
    message_bytes: float
    kept_blocks: float  # memory blocks that are still in use afterwards
    peak_bytes: float  # maximum in use at the same time, for all units together

    def as_json(self) -> dict[str, float]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


class InterpreterCounter:
    """Counter of bytecodes and C calls on this thread.

    leave_out: files whose functions are not counted

    `by_function` maps (file, function) to its number of bytecodes.
    """

    def __init__(self, *, leave_out: frozenset[str] = frozenset()) -> None:
        self.c_calls = self.codings = 0
        self.by_function: Counter[tuple[str, str]] = Counter()
        self._leave_out = leave_out | {__file__}

    @property
    def bytecodes(self) -> int:
        return self.by_function.total()

    def run(self, work: Callable[[], None]) -> None:
        previous = sys.getprofile()
        with self._monitored() if sys.version_info >= (3, 12) else self._traced():
            sys.setprofile(self._profile)
            try:
                work()
            finally:
                sys.setprofile(previous)

    @contextmanager
    def _traced(self) -> Iterator[None]:
        previous = sys.gettrace()
        sys.settrace(self._trace)
        try:
            yield
        finally:
            sys.settrace(previous)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if event != "call" or code.co_filename in self._leave_out:
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        place, by_function = (code.co_filename, code.co_qualname), self.by_function

        def step(_frame: FrameType, event: str, _argument: Any) -> Any:
            if event == "opcode":
                by_function[place] += 1
            return step

        return step

    @contextmanager
    def _monitored(self) -> Iterator[None]:
        # Not `_traced`: Python 3.12 traces the opcodes of a frame only if another frame was traced before.
        monitoring, leave_out, by_code = sys.monitoring, self._leave_out, Counter[CodeType]()
        event = monitoring.events.INSTRUCTION

        def step(code: CodeType, _offset: int) -> Any:
            if code.co_filename in leave_out:
                return monitoring.DISABLE
            by_code[code] += 1
            return None

        monitoring.use_tool_id(monitoring.PROFILER_ID, "counts")
        monitoring.register_callback(monitoring.PROFILER_ID, event, step)
        monitoring.set_events(monitoring.PROFILER_ID, event)
        try:
            yield
        finally:
            monitoring.set_events(monitoring.PROFILER_ID, 0)
            monitoring.free_tool_id(monitoring.PROFILER_ID)
            for code, count in by_code.items():
                self.by_function[code.co_filename, code.co_qualname] += count

    def _profile(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call" and frame.f_code.co_filename not in self._leave_out:
            self.c_calls += 1
            if argument.__name__ in CODECS and _module_of(argument).startswith(CODEC_MODULES):
                self.codings += 1


def _module_of(function: Any) -> str:
    # Methods of C classes have no __module__, their classes do.
    owner = getattr(function, "__objclass__", None) or type(getattr(function, "__self__", None))
    return str(getattr(function, "__module__", None) or owner.__module__)


def memory(work: Callable[[], None]) -> tuple[int, int]:
    """Return the number of blocks that `work` leaves in use, and the maximum of bytes in use at the same time."""
    # No cycle collection while `work` runs: when it happens depends on earlier allocations.
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        blocks = sys.getallocatedblocks()
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        work()
        return sys.getallocatedblocks() - blocks, tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
        gc.enable()


def cost_of(name: str) -> tuple[Cost, Counter[tuple[str, str]]]:
    """Return the cost of one unit of a scene, and the bytecodes by (file, function) of all its units."""
    scene = SCENES[name]()
    scene.act()  # fill caches and create what is created once
    simulator = frozenset() if scene.whole else frozenset(map(str, SIMULATOR.glob("*.py")))
    interpreter = InterpreterCounter(leave_out=simulator | {scenes.__file__, http_scenes.__file__})
    sizes: list[int] = []
    if scene.system is not None:
        scene.system.taps.append(lambda _sender, _to, frame: sizes.append(len(frame)))
    interpreter.run(scene.act)
    if scene.system is not None:
        scene.system.taps.pop()
    kept, peak = memory(scene.act)
    totals = {
        "bytecodes": interpreter.bytecodes,
        "c_calls": interpreter.c_calls,
        "codings": interpreter.codings,
        "messages": len(sizes),
        "message_bytes": sum(sizes),
        "kept_blocks": kept,
    }
    cost = Cost(peak_bytes=peak, **{figure: round(total / scene.units, 2) for figure, total in totals.items()})
    return cost, interpreter.by_function


def main() -> None:
    """Print the costs of the named scenes (default: all) as JSON; with --where, also their bytecodes by function."""
    names = [name for name in sys.argv[1:] if name != "--where"] or list(SCENES)
    costs: dict[str, Any] = {}
    for name in names:
        cost, by_function = cost_of(name)
        costs[name] = {"cost": cost.as_json()}
        if "--where" in sys.argv:
            units = SCENES[name]().units
            costs[name]["where"] = [[*place, count / units] for place, count in by_function.most_common(MAX_FUNCTIONS)]
    print(json.dumps(costs))


if __name__ == "__main__":
    main()
