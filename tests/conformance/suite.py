"""Upstream's e2e.test: its specs, and the result of running one on a cluster.

Each spec runs in a process of its own, so that each has its own time limit.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tests.e2e.programs import ROOT

FOCUS = "|".join(
    (
        r"\[sig-(apps|api-machinery|network|auth|instrumentation)\].*\[Conformance\]",
        r"LimitRange.*\[Conformance\]",
        "NoExecuteTaintManager",
        r"\[sig-apps\] (CronJob|Daemon set|Deployment|Disruption|Job|Replica|StatefulSet|TTLAfter)",
        r"\[sig-storage\] (ConfigMap|Secrets) should be immutable",  # other specs of them read files in containers
        r"\[sig-storage\] (CSIInline|CSINodes|CSIStorage|PersistentVolumes CSI|StorageClasses|VolumeAtt)",
        r"\[sig-storage\] (PVC? Protection|Retroactive|Ephemeralstorage|MutableCSINode|VolumeAttributesClass)",
        r"\[sig-storage\] (\[Serial\] Volume metrics PVController|PersistentVolumes NFS.*phase transition)",
        r"\[sig-storage\] CSI Mock volume attach CSI attach test",
        r"\[sig-scheduling\]",
        r"\[sig-node\] \[DRA\] (CRUD Tests|ResourceSlice Controller|control plane)",
        r"\[sig-api-machinery\] (ResourceQuota|ValidatingAdmissionPolicy|Garbage collector|Discovery)",
    )
)
# Gates that are off, storage to be installed, an upgrade. The other features are there by default.
NEEDS_MORE = re.compile(r"\[Feature:(?!PodPriority\]|SchedulerAsyncPreemption\])")
OFF_BY_DEFAULT = "[Feature:OffByDefault]"
NOT_RUN = "no spec has this name, or it is for other clusters"
GRACE = 30.0  # seconds for a spec that was interrupted to clean up after itself
# Specs that run a webhook in a pod. Two of them at a time would listen on the same port.
WITH_WEBHOOKS = ("] AdmissionWebhook ", "] CustomResourceConversionWebhook ", "] CustomResourceFieldSelectors ")
ALONE = ("[Serial]", "[Disruptive]", *WITH_WEBHOOKS)  # specs that no other may run beside

_RAN = re.compile(r"Ran (\d+) of \d+ Specs")
_COUNTS = re.compile(r"(\d+) Passed \| (\d+) Failed \| (\d+) Pending \| (\d+) Skipped")
_STEP = re.compile(r"^ *STEP: (.*?)(?: @ .*)?$", re.MULTILINE)
_FAILED = re.compile(r"^ *\[(FAILED|TIMEDOUT|INTERRUPTED|PANICKED|SKIPPED)\] *(.*)$", re.MULTILINE)


class State(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    TIMED_OUT = "timed out"
    SKIPPED = "skipped"  # by the spec itself, for lack of a feature


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a spec.

    why: beginning of the failure, or the last step of an interrupted spec.
    seconds: duration of the whole process.
    """

    spec: str
    state: State
    why: str
    seconds: float


def must_run_alone(spec: str) -> bool:
    return any(mark in spec for mark in ALONE)


def has_webhook(spec: str) -> bool:
    return any(name in spec for name in WITH_WEBHOOKS)


@dataclass(frozen=True, slots=True)
class Suite:
    """Program e2e.test for one cluster.

    logs: directory with a file for each spec.
    gated: regular expression of the specs of a cluster with feature gates that are off by default; "" for others.
    """

    binary: Path
    kubeconfig: Path
    logs: Path
    flags: Sequence[str] = ()
    gated: str = ""

    def specs(self) -> list[str]:
        """Return the names of all specs for the cluster."""
        focus = self.gated or FOCUS
        report = self.logs / "dry-run.json"
        self._run(report.with_suffix(".log"), 600.0, "--ginkgo.dry-run", f"--ginkgo.focus={focus}", report=report)
        specs = json.loads(report.read_text())[0]["SpecReports"]
        report.unlink()  # tens of megabytes, since it contains the other specs too
        names = (
            " ".join([*(spec["ContainerHierarchyTexts"] or []), spec["LeafNodeText"]])
            for spec in specs
            if spec["State"] == "passed" and spec["LeafNodeType"] == "It"
        )
        return sorted(name for name in names if self._is_for_the_cluster(name))

    def _is_for_the_cluster(self, spec: str) -> bool:
        if self.gated:
            return OFF_BY_DEFAULT in spec and not NEEDS_MORE.search(spec.replace(OFF_BY_DEFAULT, ""))
        return not NEEDS_MORE.search(spec)

    def run(self, spec: str, *, limit: float) -> Result:
        """Run a spec. limit: seconds."""
        log = self.logs / f"{_file_name(spec)}.log"
        begun = time.monotonic()
        self._run(log, limit, f"--ginkgo.focus={re.escape(spec)}$")
        return result_of(spec, log.read_text(errors="replace"), time.monotonic() - begun)

    def _run(self, log: Path, limit: float, *flags: str, report: Path | None = None) -> None:
        command = [
            str(self.binary),
            f"--kubeconfig={self.kubeconfig}",
            "--provider=skeleton",
            "--ginkgo.no-color",
            "--ginkgo.silence-skips",
            f"--ginkgo.timeout={limit:g}s",
            f"--ginkgo.grace-period={GRACE / 2:g}s",
            "--disable-log-dump",
            "--dump-logs-on-failure=false",
            *self.flags,
            *flags,
        ]
        if report is not None:
            command.append(f"--ginkgo.json-report={report}")
        with log.open("wb") as stream:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, cwd=ROOT
            )
            try:
                process.wait(limit + GRACE)
            except subprocess.TimeoutExpired:
                pass
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()


def result_of(spec: str, output: str, seconds: float) -> Result:
    """Parse the output of e2e.test for one spec."""
    counts = _COUNTS.search(output)
    failures = [(found[1], found[2].strip(), found.start()) for found in _FAILED.finditer(output)]
    why = next((text for _, text, _ in failures if text and not text.startswith("in [")), "")
    interrupted = next((at for word, _, at in failures if word in ("TIMEDOUT", "INTERRUPTED")), None)
    if counts is None or interrupted is not None:
        steps = _STEP.findall(output[:interrupted])
        return Result(spec, State.TIMED_OUT, steps[-1] if steps else why, seconds)
    passed, failed = int(counts[1]), int(counts[2])
    if failed:
        return Result(spec, State.FAILED, why, seconds)
    if passed == 1:
        return Result(spec, State.PASSED, "", seconds)
    return Result(spec, State.SKIPPED, why or NOT_RUN, seconds)


def _file_name(spec: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", spec).strip("-")[:200]
