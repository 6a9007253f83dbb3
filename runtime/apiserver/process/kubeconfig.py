"""The admin's token, and the kubeconfig that holds it."""

from __future__ import annotations

import base64
import secrets
from pathlib import Path

import yaml

from runtime.process.files import write_private

NAME = "kcm"  # of the cluster, the user and the context


def admin_token(path: Path) -> str:
    """Returns the token in the file, which it creates on first use. Raises OSError."""
    try:
        token = path.read_text(encoding="ascii").strip()
    except (FileNotFoundError, UnicodeDecodeError):
        token = ""
    if not token:
        token = secrets.token_urlsafe(32)
        write_private(path, token.encode())
    return token


def write_kubeconfig(path: Path, *, url: str, authority: bytes, token: str) -> None:
    """Replaces the file. authority: PEM of the CA that signed the server's certificate. Raises OSError."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": NAME,
                "cluster": {"server": url, "certificate-authority-data": base64.b64encode(authority).decode()},
            }
        ],
        "users": [{"name": NAME, "user": {"token": token}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME}}],
        "current-context": NAME,
    }
    write_private(path, yaml.safe_dump(config, sort_keys=False).encode())
