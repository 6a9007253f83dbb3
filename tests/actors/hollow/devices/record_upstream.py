"""Record results of upstream's device allocator and device selectors for its own test cases.

    python -m tests.actors.hollow.devices.record_upstream /path/to/kubernetes

Needs a Go toolchain and a source tree of Kubernetes with vendored modules. The tests of upstream are run with changed
copies (`go test -overlay`), which write the input and the actual result of each case; the tree is not changed. The
allocator is the one that the scheduler uses with the default feature gates ("incubating"). Its cases are run with these
gates, so that some results differ from those that upstream's test expects with other gates.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

STAGING = "staging/src/k8s.io/dynamic-resource-allocation"
ALLOCATIONS = Path(__file__).with_name("upstream_allocations.json")
EXPRESSIONS = Path(__file__).parents[3] / "runtime" / "cel" / "device_expressions.json"

_WRITE = """
	f, e := os.OpenFile("{path}", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0644)
	if e != nil {{
		panic(e)
	}}
	if e := json.NewEncoder(f).Encode(out); e != nil {{
		panic(name + e.Error())
	}}
	f.Close()
}}
"""
_ALLOCATION = """
func record(name string, tc AllocatorTestCase, allocator Allocator, results []resourceapi.AllocationResult, err error) {
	devices := [][3]string{}
	for _, id := range tc.allocatedDevices {
		devices = append(devices, [3]string{id.Driver.String(), id.Pool.String(), id.Device.String()})
	}
	shared := [][3]string{}
	for id := range tc.allocatedSharedDeviceIDs {
		shared = append(shared, [3]string{id.Driver.String(), id.Pool.String(), id.Device.String()})
	}
	type consumed struct {
		Device   [3]string         `json:"device"`
		Capacity map[string]string `json:"capacity"`
	}
	capacities := []consumed{}
	for id, capacity := range tc.allocatedCapacityDevices {
		c := consumed{[3]string{id.Driver.String(), id.Pool.String(), id.Device.String()}, map[string]string{}}
		for name, q := range capacity {
			c.Capacity[string(name)] = q.String()
		}
		capacities = append(capacities, c)
	}
	for ri, result := range results {
		for ai, allocation := range result.Devices.Results {
			if allocation.ShareID != nil {
				results[ri].Devices.Results[ai].ShareID = &fixedShareID
			}
		}
	}
	text := ""
	if err != nil {
		text = err.Error()
	}
	out := map[string]any{
		"name": name, "node": tc.node, "claims": unwrap(tc.claimsToAllocate...),
		"classes": tc.classes, "slices": tc.slices, "allocated": devices, "shared": shared, "capacities": capacities,
		"results": results, "error": text, "on_node": errors.Is(err, internal.ErrFailedAllocationOnNode),
		"calls": allocator.(internal.AllocatorExtended).GetStats().NumAllocateOneInvocations,
	}
"""
_EXPRESSION = """
func record(ctx context.Context, name string, expression string, device Device, result CompilationResult) {
	match, details, err := result.DeviceMatches(ctx, device)
	text := ""
	if err != nil {
		text = err.Error()
	}
	out := map[string]any{
		"name": name, "expression": expression, "driver": device.Driver, "match": match, "error": text,
		"device": map[string]any{
			"allowMultipleAllocations": device.AllowMultipleAllocations,
			"attributes": device.Attributes, "capacity": device.Capacity,
		},
		"cost": ptr.Deref(details.ActualCost(), 0),
	}
"""
_GATES = """
			tc.features = Features{
				AdminAccess: true, PrioritizedList: true, PartitionableDevices: true, DeviceTaints: true,
				DeviceBindingAndStatus: true, ConsumableCapacity: true,
			}
"""
_DEVICE_OF_CASE = """Device{
	AllowMultipleAllocations: scenario.allowMultipleAllocations, Attributes: scenario.attributes,
	Capacity: scenario.capacity, Driver: scenario.driver,
}"""
_OF_SCALARS = f"if !enableListTypeAttributes {{ record(ctx, name, scenario.expression, {_DEVICE_OF_CASE}, result) }}\n"


def main() -> None:
    tree = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        cases = _recorded(
            tree,
            work / "allocations",
            source="structured/internal/allocatortesting/allocator_testing.go",
            before="			matchError := tc.expectError\n",
            call="record(name, tc, allocator, results, err)\n",
            function=_ALLOCATION,
            changes=(("\t\t\trequired := tc.features.Set()\n", _GATES + "\t\t\trequired := tc.features.Set()\n"),),
            package="structured/internal/incubating",
        )
        ALLOCATIONS.write_text(_as_lines(_without_unused(case) for case in cases))
        cases = _recorded(
            tree,
            work / "expressions",
            source="cel/compile_test.go",
            before="			if expect, actual := scenario.expectCost, result.MaxCost",
            call=_OF_SCALARS,
            function=_EXPRESSION,
            package="cel",
        )
        EXPRESSIONS.write_text(_as_lines(cases))


def _recorded(
    tree: Path,
    work: Path,
    *,
    source: str,
    before: str,
    call: str,
    function: str,
    package: str,
    changes: Sequence[tuple[str, str]] = (),
) -> list[dict[str, Any]]:
    """Run the tests of a package with a call of `record` added, and return what it recorded, sorted by name."""
    work.mkdir()
    original = tree / STAGING / source
    text = original.read_text()
    for old, new in ((before, call + before), *changes):
        if old not in text:
            raise SystemExit(f"{original} has changed: {old.strip()!r} is missing")
        text = text.replace(old, new, 1)
    imports = '	"errors"\n'
    text = text.replace(imports, f'	"encoding/json"\n{imports}	"os"\n', 1)
    changed, lines = work / original.name, work / "cases"
    changed.write_text(text + function + _WRITE.format(path=lines))
    overlay = work / "overlay.json"
    overlay.write_text(json.dumps({"Replace": {str(original): str(changed)}}))
    command = ["go", "test", "-count=1", "-mod=vendor", "-overlay", str(overlay)]
    subprocess.run([*command, f"k8s.io/dynamic-resource-allocation/{package}"], cwd=tree, check=False)
    by_name = {}
    for line in lines.read_text().splitlines():
        case = json.loads(line)
        by_name[case["name"]] = case
    return [by_name[name] for name in sorted(by_name)]


def _without_unused(case: dict[str, Any]) -> dict[str, Any]:
    return {**case, "node": {"metadata": case["node"]["metadata"]}}


def _as_lines(cases: Any) -> str:
    return "[\n" + ",\n".join(json.dumps(case, sort_keys=True) for case in cases) + "\n]\n"


if __name__ == "__main__":
    main()
