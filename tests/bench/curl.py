"""Requests with bare libcurl, for programs that write beside a manager and must use little CPU."""

from __future__ import annotations

from pathlib import Path

import pycurl
import yaml


def server_and_token(kubeconfig: Path) -> tuple[str, str]:
    config = yaml.safe_load(kubeconfig.read_text())
    return config["clusters"][0]["cluster"]["server"], config["users"][0]["user"]["token"]


def handle(token: str) -> pycurl.Curl:
    """Return a handle that discards the bodies of responses."""
    curl = pycurl.Curl()
    curl.setopt(pycurl.SSL_VERIFYPEER, 0)
    curl.setopt(pycurl.SSL_VERIFYHOST, 0)
    curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
    curl.setopt(pycurl.HTTPHEADER, headers(token))
    curl.setopt(pycurl.WRITEFUNCTION, len)
    return curl


def headers(token: str, *, content_type: str = "application/json") -> list[str]:
    return [f"Authorization: Bearer {token}", f"Content-Type: {content_type}", "Expect:"]
