"""Flags of ours for looking into a run: the journal, and faults that are injected on purpose."""

from __future__ import annotations

from protocols.late_methods import dataclass
from runtime.flags.declaration import flag
from runtime.flags.values import INT


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    journal: str = flag(
        "", "File to write every message to that actors tell each other, with what it holds, Secrets too; mode 0600."
    )
    journal_file_size: int = flag(64, "MB after which the journal begins another file.", kind=INT)
    journal_files: int = flag(5, "How many files of the journal are kept.", kind=INT)
    fault_plan: str = flag("", "File with faults to inject into this run: docs/fault-injection.md.")
    fault_plan_on_any_cluster: bool = flag(
        False, "Let --fault-plan do its harm to a cluster that is not the embedded one."
    )
