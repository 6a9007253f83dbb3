"""What a piece of work costs in counts, which are the same on a loud machine and on a quiet one.

The processor's counter of instructions is not to be had in most containers and virtual machines, and what it shows
differs between builds of one Python version (instructions.py reads it all the same). What can be had everywhere is what
the interpreter is told to do: its own instructions, and the calls that it makes of functions in C.
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

MOST = 60  # functions that are shown
SIMULATOR = Path(kcm.runtime.simulation.__file__).parent

CODECS = frozenset({"loads", "dumps", "unpackb", "pack", "packb"})  # of orjson and msgpack
CODEC_MODULES = ("orjson", "msgpack")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Of one unit of work, on average.

    bytecodes: instructions of the interpreter. c_calls: of functions in C.
    codings: those among them that read or write JSON or msgpack. messages, message_bytes: what actors were sent.
    kept_blocks: of memory that is still in use afterwards. peak_bytes: that were in use at once for all of the units.
    """

    bytecodes: float
    c_calls: float
    codings: float
    messages: float
    message_bytes: float
    kept_blocks: float
    peak_bytes: float

    def as_json(self) -> dict[str, float]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


class Interpreter:
    """Counts what the interpreter does on this thread, but for what functions of the files that it leaves out do.

    `by_function` says where, as (file, function) → bytecodes.
    """

    def __init__(self, *, leave_out: frozenset[str] = frozenset()) -> None:
        self.c_calls = self.codings = 0
        self.by_function: Counter[tuple[str, str]] = Counter()
        self._leave_out = leave_out | {__file__}

    @property
    def bytecodes(self) -> int:
        return self.by_function.total()

    def run(self, work: Callable[[], None]) -> None:
        before = sys.getprofile()
        with self._monitored() if sys.version_info >= (3, 12) else self._traced():
            sys.setprofile(self._profile)
            try:
                work()
            finally:
                sys.setprofile(before)

    @contextmanager
    def _traced(self) -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            yield
        finally:
            sys.settrace(before)

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
        """Python 3.12 traces opcodes of a frame only if some frame was traced so before."""
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
    """Methods of a class in C have none, but the class has."""
    owner = getattr(function, "__objclass__", None) or type(getattr(function, "__self__", None))
    return str(getattr(function, "__module__", None) or owner.__module__)


def memory(work: Callable[[], None]) -> tuple[int, int]:
    """(blocks that are in use afterwards and were not before, most bytes in use at once).

    The collector of cycles does not run meanwhile: when it does depends on what was done before.
    """
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
    """Of one unit of a scene, and where its instructions are, of all units."""
    scene = SCENES[name]()
    scene.act()  # what is made once is made now
    simulator = frozenset() if scene.whole else frozenset(map(str, SIMULATOR.glob("*.py")))
    interpreter = Interpreter(leave_out=simulator | {scenes.__file__, http_scenes.__file__})
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
    cost = Cost(peak_bytes=peak, **{what: round(total / scene.units, 2) for what, total in totals.items()})
    return cost, interpreter.by_function


def main() -> None:
    """Of the scenes that are named, or all: their costs, as JSON; with --where also where the bytecodes are."""
    names = [name for name in sys.argv[1:] if name != "--where"] or list(SCENES)
    found: dict[str, Any] = {}
    for name in names:
        cost, by_function = cost_of(name)
        found[name] = {"cost": cost.as_json()}
        if "--where" in sys.argv:
            units = SCENES[name]().units
            found[name]["where"] = [[*place, count / units] for place, count in by_function.most_common(MOST)]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
