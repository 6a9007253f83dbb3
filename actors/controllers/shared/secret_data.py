"""Access to the data of Secrets."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any


def data_of(secret: Mapping[str, Any], field: str) -> bytes:
    """Return a field of the Secret's `data`, decoded from base64; b"" if it is missing or malformed."""
    try:
        return base64.b64decode((secret.get("data") or {}).get(field) or "")
    except binascii.Error:
        return b""
