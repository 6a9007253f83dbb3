"""Typical bugs of operators are found in the example operators, by a report that names the cause."""

from __future__ import annotations

import re

import pytest

from kcm.actors.simulation.campaign.checks import check
from kcm.actors.simulation.campaign.failure_reports import recorded, report
from tests.faults.mutants.backups import BACKUPS, RECORDS
from tests.faults.mutants.copies import CLUSTER_COPIES
from tests.faults.mutants.databases import DATABASES
from tests.faults.mutants.mutant import Mutant
from tests.faults.mutants.tenants import TENANTS
from tests.faults.recorded_seeds import must_be_found_by

# By mutant: the seed that must find it, and a pattern of the report, which any seed has.
TENANT_CAUSES = {
    "uid not compared": (44, r"\w+ \(\S+\) writes \w+ into \S+, which it does not own"),
    "status from memory": (0, r"the status of \w+ contains \[.*\], but it has \[.*\]"),
    "finalizer too early": (0, r"\w+ is deleted before its account \d+ is closed"),
    "no requeue": (0, r"\w+ is still being deleted, and it has no account any more"),
    "answer lost, and the call repeated": (0, r"\w+ gets account \d+, but has account \d+"),
    "wrong namespace watched": (
        0,
        r"resourcequotas \S+ is not created: .* only objects in default",
    ),
}

BACKUP_CAUSES = {
    "numbered by name": (0, r"copy \w+ of \S+ is started, but no Backup with this uid has a finalizer"),
    "finalizer missing": (0, r"copy \S+ of \S+ is started, but no Backup with this uid has a finalizer"),
    "finalizer too early": (1, r"\w+ is deleted before its copy \S+"),
    "no requeue": (0, r"\w+ is (Running, not (Done|Failed)|still being deleted, and the service has no copy)"),
    "done when started": (0, r"\w+ is Done, but broken-disk cannot be copied"),
    "new number for each call": (0, r"copy \S+-\d+ of \S+ is started, but no Backup with this uid"),
}
RECORD_CAUSES = {
    "finalizer missing": (0, r"record \S+ of \S+ A is started, but no DnsRecord with this uid has a finalizer"),
    "finalizer too early": (4, r"\w+ is deleted before its record \S+"),
    "no requeue": (
        0,
        r"\w+ reports .*'Propagating'.*, and is Active|still being deleted, and the provider has no record",
    ),
    "edit not repaired": (1, r"\S+ A has \('203.0.113.9',\) for \d+ s, not"),
}
DATABASE_CAUSES = {
    "all pods at once": (0, r"orders-\d is deleted before the replacement of orders-\d is ready"),
    "primary first": (0, r"the primary is deleted, and orders-\d still has its version"),
    "password made anew": (0, r"the password in default/orders is changed"),
    "backup not awaited": (1, r"orders is upgraded from \S+ to \S+ without a Backup"),
    "dependents not watched": (12, r"Service default/orders\S* is missing|the Service selects"),
    "status without a look": (0, r"orders-\d is deleted before the replacement of orders-\d is ready"),
}
COPY_CAUSES = {
    "surplus keys kept": (3, r"default/\w+ has \{.*\} on edge, and its source has \{.*\}"),
    "owned across clusters": (0, r"default/\w+ on edge is owned by ConfigMap \w+, which is on hub"),
    "others overwritten": (0, r"default/taken on edge is (MODIFIED|DELETED) by the operator, and was no copy"),
    "deleted on the wrong cluster": (2, r"copy-controller may not delete (default/\w+ of )?hub:(v1/)?configmaps"),
    "version of the other cluster": (1, r"patch edge:configmaps default/\w+: Conflict"),
    "copies not watched": (4, r"default/\w+ (is not on edge|has \{.*\} on edge)"),
}
OPERATORS = (
    ("tenant", TENANTS, TENANT_CAUSES),
    ("backup", BACKUPS, BACKUP_CAUSES),
    ("dns", RECORDS, RECORD_CAUSES),
    ("database", DATABASES, DATABASE_CAUSES),
    ("copy", CLUSTER_COPIES, COPY_CAUSES),
)
CASES = [
    pytest.param(mutant, *causes[mutant.name], id=f"{operator}: {mutant.name}")
    for operator, mutants, causes in OPERATORS
    for mutant in mutants
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("mutant", "seed", "cause"), CASES)
def test_a_planted_bug_is_found_and_its_cause_named(mutant: Mutant, seed: int, cause: str) -> None:
    with mutant.mutation():
        must_be_found_by(seed, lambda each: bool(check(each, setting=mutant.setting).violations))
        text = report(recorded(check(seed, setting=mutant.setting), setting=mutant.setting))
    assert re.search(cause, text), text
