"""All mutants, in the order of the matrix."""

from __future__ import annotations

from tests.faults.mutants.accounts import ACCOUNTS
from tests.faults.mutants.attachments import ATTACHMENTS
from tests.faults.mutants.autoscalers import AUTOSCALERS
from tests.faults.mutants.bootstrap import BOOTSTRAP
from tests.faults.mutants.budgets import BUDGETS
from tests.faults.mutants.certificates import CERTIFICATES
from tests.faults.mutants.claims import CLAIMS
from tests.faults.mutants.clients import CLIENTS
from tests.faults.mutants.crons import CRONS
from tests.faults.mutants.daemons import DAEMONS
from tests.faults.mutants.device_taints import DEVICE_TAINTS
from tests.faults.mutants.devices import DEVICES
from tests.faults.mutants.finished import FINISHED
from tests.faults.mutants.garbage import GARBAGE
from tests.faults.mutants.jobs import JOBS
from tests.faults.mutants.namespaces import NAMESPACES
from tests.faults.mutants.nodes import NODES
from tests.faults.mutants.policies import POLICIES
from tests.faults.mutants.processes import PROCESSES
from tests.faults.mutants.quotas import QUOTAS
from tests.faults.mutants.roles import ROLES
from tests.faults.mutants.service_ranges import SERVICE_RANGES
from tests.faults.mutants.services import SERVICES
from tests.faults.mutants.stateful import STATEFUL
from tests.faults.mutants.tenants import TENANTS
from tests.faults.mutants.versions import VERSIONS
from tests.faults.mutants.volumes import VOLUMES
from tests.faults.mutants.workloads import WORKLOADS

MUTANTS = (
    *CLIENTS,
    *PROCESSES,
    *WORKLOADS,
    *NODES,
    *SERVICES,
    *SERVICE_RANGES,
    *TENANTS,
    *GARBAGE,
    *BUDGETS,
    *NAMESPACES,
    *ACCOUNTS,
    *CERTIFICATES,
    *FINISHED,
    *DAEMONS,
    *CRONS,
    *JOBS,
    *QUOTAS,
    *BOOTSTRAP,
    *ROLES,
    *STATEFUL,
    *VOLUMES,
    *ATTACHMENTS,
    *AUTOSCALERS,
    *CLAIMS,
    *POLICIES,
    *VERSIONS,
    *DEVICES,
    *DEVICE_TAINTS,
)
