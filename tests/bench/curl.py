"""Requests by libcurl and nothing around it: for those who write beside a manager, and are to cost little."""

from __future__ import annotations

from pathlib import Path

import pycurl
import yaml


def server_and_token(kubeconfig: Path) -> tuple[str, str]:
    config = yaml.safe_load(kubeconfig.read_text())
    return config["clusters"][0]["cluster"]["server"], config["users"][0]["user"]["token"]


def handle(token: str) -> pycurl.Curl:
    """What it reads is thrown away."""
    made = pycurl.Curl()
    made.setopt(pycurl.SSL_VERIFYPEER, 0)
    made.setopt(pycurl.SSL_VERIFYHOST, 0)
    made.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
    made.setopt(pycurl.HTTPHEADER, headers(token))
    made.setopt(pycurl.WRITEFUNCTION, len)
    return made


def headers(token: str, *, content_type: str = "application/json") -> list[str]:
    return [f"Authorization: Bearer {token}", f"Content-Type: {content_type}", "Expect:"]
