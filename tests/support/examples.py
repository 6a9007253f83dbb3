"""Import of the example modules, which are in no package and import each other by name."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "examples"))

import tenant_operator
import test_tenant_faults

__all__ = ["tenant_operator", "test_tenant_faults"]
