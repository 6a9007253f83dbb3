"""The examples as modules: they are in no package, and import each other by their names."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "examples"))

import tenant_operator
import test_tenant_faults

__all__ = ["tenant_operator", "test_tenant_faults"]
