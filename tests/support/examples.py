"""Import of the example modules, which are in no package and import each other by name."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "examples"))

import backup_operator
import certificate_operator
import copy_operator
import database_operator
import dns_operator
import tenant_operator
import test_backup
import test_certificate
import test_copies
import test_database
import test_dns
import test_tenant_faults
import test_website_faults
import website_controller

__all__ = [
    "backup_operator",
    "certificate_operator",
    "copy_operator",
    "database_operator",
    "dns_operator",
    "tenant_operator",
    "test_backup",
    "test_certificate",
    "test_copies",
    "test_database",
    "test_dns",
    "test_tenant_faults",
    "test_website_faults",
    "website_controller",
]
