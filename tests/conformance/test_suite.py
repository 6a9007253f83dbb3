"""Results parsed from the output of e2e.test."""

from __future__ import annotations

import pytest

from tests.conformance.suite import NOT_RUN, State, must_run_alone, result_of

PASSED = """\
  STEP: Creating a kubernetes client @ 11/22/26 10:12:32.698
•
Ran 1 of 7906 Specs in 1.2 seconds
SUCCESS! -- 1 Passed | 0 Failed | 0 Pending | 7905 Skipped
"""
FAILED = """\
• [FAILED] [0.177 seconds]
  STEP: Creating a kubernetes client @ 11/22/26 10:12:32.698
  [FAILED] in [It] - /e2e/apimachinery/discovery.go:301 @ 11/22/26 10:12:32.818
  << Timeline

  [FAILED] Fail to access: /apis/admissionregistration.k8s.io/v1
  In [It] at: /e2e/apimachinery/discovery.go:301 @ 11/22/26 10:12:32.818
------------------------------
Ran 1 of 7906 Specs in 0.2 seconds
FAIL! -- 0 Passed | 1 Failed | 0 Pending | 7905 Skipped
"""
INTERRUPTED = """\
  STEP: Creating first CR @ 11/22/26 10:12:45.77
  STEP: Modifying first CR @ 11/22/26 10:13:05.845
  [TIMEDOUT] in [It] - /e2e/apimachinery/crd_watch.go:52 @ 11/22/26 10:13:14.568
  STEP: Destroying namespace "crd-watch-4016" for this suite. @ 11/22/26 10:13:14.587
  [TIMEDOUT] A suite timeout occurred
Ran 1 of 7906 Specs in 28.9 seconds
FAIL! -- 0 Passed | 1 Failed | 0 Pending | 7905 Skipped
"""
SKIPPED = """\
S [SKIPPED] [0.1 seconds]
  [SKIPPED] Only supported for providers [gce]
Ran 0 of 7906 Specs in 0.2 seconds
SUCCESS! -- 0 Passed | 0 Failed | 0 Pending | 7906 Skipped
"""
KILLED = "  STEP: Waiting for Godot @ 11/22/26 10:12:45.77\n"


@pytest.mark.parametrize(
    ("output", "state", "why"),
    [
        (PASSED, State.PASSED, ""),
        (FAILED, State.FAILED, "Fail to access: /apis/admissionregistration.k8s.io/v1"),
        (INTERRUPTED, State.TIMED_OUT, "Modifying first CR"),
        (SKIPPED, State.SKIPPED, "Only supported for providers [gce]"),
        (KILLED, State.TIMED_OUT, "Waiting for Godot"),
        ("", State.TIMED_OUT, ""),
        ("SUCCESS! -- 0 Passed | 0 Failed | 0 Pending | 7906 Skipped", State.SKIPPED, NOT_RUN),
    ],
)
def test_result_of_a_spec_is_parsed(output: str, state: State, why: str) -> None:
    result = result_of("a spec", output, 1.5)
    assert (result.spec, result.state, result.why, result.seconds) == ("a spec", state, why, 1.5)


@pytest.mark.parametrize(
    ("spec", "alone"),
    [
        ("[sig-apps] Job should delete a job [Conformance]", False),
        ("[sig-api-machinery] Namespaces [Serial] should patch a Namespace [Conformance]", True),
        ("[sig-node] NoExecuteTaintManager removing taint cancels eviction [Disruptive] [Conformance]", True),
    ],
)
def test_serial_specs_run_alone(spec: str, alone: bool) -> None:
    assert must_run_alone(spec) is alone
