"""Flags of ours for looking into a run: the journal, and faults that are injected on purpose."""

from __future__ import annotations

from kcm.protocols.late_methods import dataclass
from kcm.runtime.flags.declaration import flag
from kcm.runtime.flags.values import INT


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    journal: str = flag(
        "", "Path to a file that every message between actors is recorded in. It contains Secrets; its mode is 0600."
    )
    journal_file_size: int = flag(64, "Size in megabytes at which the journal continues in a new file.", kind=INT)
    journal_files: int = flag(5, "Maximum number of journal files to retain.", kind=INT)
    fault_plan: str = flag("", "Path to a plan of faults to inject into this run. See docs/fault-injection.md.")
    fault_plan_on_any_cluster: bool = flag(False, "Allow --fault-plan on a cluster other than the embedded one.")
