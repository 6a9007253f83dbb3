"""Headless Chromium, driven by the Chrome DevTools Protocol over a WebSocket.

Tests skip without a Chromium in the PATH, or in the environment variable CHROMIUM.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
TIMEOUT = 30.0  # seconds
ARTEFACTS = "KCM_SCREENSHOTS"  # environment variable: directory in which screenshots are kept


def chromium() -> str:
    """Return the path of the browser, or skip the test."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), "")
    if not found:
        pytest.skip("no Chromium in the PATH (apt-get install chromium)")
    return found


class Page:
    """One tab, and everything that it complained about."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, artefacts: Path) -> None:
        self._socket, self._artefacts = socket, artefacts
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._reader = asyncio.create_task(self._read())
        self.complaints: list[str] = []
        self.requests: dict[str, dict[str, Any]] = {}
        self.loaded = asyncio.Event()

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        response = await asyncio.wait_for(future, TIMEOUT)
        if "error" in response:
            raise RuntimeError(f"{method}: {response['error']}")
        result: dict[str, Any] = response.get("result", {})
        return result

    async def _read(self) -> None:
        async for message in self._socket:
            content = json.loads(message.data)
            if "id" in content:
                self._waiting.pop(content["id"]).set_result(content)
            else:
                self._on_event(content["method"], content["params"])

    def _on_event(self, method: str, event: dict[str, Any]) -> None:
        match method:
            case "Runtime.exceptionThrown":
                details = event["exceptionDetails"]
                self.complaints.append(f"exception: {details.get('exception', {}).get('description', details['text'])}")
            case "Runtime.consoleAPICalled" if event["type"] in ("error", "warning", "assert"):
                self.complaints.append(f"console.{event['type']}: {[arg.get('value') for arg in event['args']]}")
            case "Log.entryAdded" if event["entry"]["level"] in ("error", "warning"):
                entry = event["entry"]
                self.complaints.append(f"{entry['source']}: {entry['text']} {entry.get('url', '')}")
            case "Audits.issueAdded" if "contentSecurityPolicyIssueDetails" in event["issue"]["details"]:
                self.complaints.append(f"policy: {event['issue']['details']['contentSecurityPolicyIssueDetails']}")
            case "Page.loadEventFired":
                self.loaded.set()
            case "Network.responseReceived":
                self.requests.setdefault(event["requestId"], {}).update(
                    url=event["response"]["url"], status=event["response"]["status"]
                )
            case "Network.loadingFinished":
                self.requests.setdefault(event["requestId"], {})["bytes"] = event["encodedDataLength"]

    async def open(self, url: str) -> None:
        """Load a page that is not an address of the same one."""
        self.loaded.clear()
        await self.call("Page.navigate", url=url)
        await asyncio.wait_for(self.loaded.wait(), TIMEOUT)

    async def evaluate(self, expression: str) -> Any:
        """Return the value of an expression, which may be a promise."""
        done = await self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in done:
            raise RuntimeError(done["exceptionDetails"].get("exception", {}).get("description", "failed"))
        return done["result"].get("value")

    async def until(self, condition: str, *, timeout: float = TIMEOUT) -> Any:
        """Wait until an expression is true, and return its value."""
        deadline = asyncio.get_running_loop().time() + timeout
        while True:
            value = await self.evaluate(condition)
            if value:
                return value
            if asyncio.get_running_loop().time() > deadline:
                text = await self.evaluate("document.body.innerText")
                raise AssertionError(f"{condition} is not true after {timeout} s; {self.complaints}; the page:\n{text}")
            await asyncio.sleep(0.05)

    async def press(self, key: str, *, shift: bool = False) -> None:
        """Press a key: "Tab", "Enter", "ArrowRight" or a letter."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "ArrowRight": 39, "ArrowLeft": 37, "ArrowDown": 40}
        common = {"key": key, "modifiers": 8 if shift else 0, "windowsVirtualKeyCode": codes.get(key, ord(key[0]))}
        common["code"] = "Space" if key == " " else key
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        down = {**common, "text": text} if text else common
        await self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **down)
        await self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    async def type(self, text: str) -> None:
        await self.call("Input.insertText", text=text)

    async def screenshot(self, name: str) -> bytes:
        """Take a picture of the visible part, and keep it among the artefacts."""
        data = base64.b64decode((await self.call("Page.captureScreenshot", format="png"))["data"])
        self._artefacts.mkdir(parents=True, exist_ok=True)
        (self._artefacts / f"{name}.png").write_bytes(data)
        return data

    async def heap(self) -> float:
        """Return the bytes of live JavaScript objects, after a collection."""
        await self.call("HeapProfiler.collectGarbage")
        used: float = (await self.call("Runtime.getHeapUsage"))["usedSize"]
        return used

    async def end(self) -> None:
        self._reader.cancel()
        await self._socket.close()


@contextlib.asynccontextmanager
async def browser(profile: Path, *, width: int = 1280, height: int = 800) -> AsyncIterator[Callable[[], Any]]:
    """Start the browser. Yield a function that opens a tab. profile: a directory of its own."""
    artefacts = Path(os.environ.get(ARTEFACTS) or profile / "screenshots")
    command = [
        chromium(),
        "--headless",
        "--no-sandbox",  # tests run as root in containers
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-extensions",
        f"--user-data-dir={profile}",
        "--remote-debugging-port=0",
        f"--window-size={width},{height}",
        "about:blank",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    pages: list[Page] = []
    try:
        port = await _port(profile / "DevToolsActivePort", process)
        async with aiohttp.ClientSession() as session:

            async def new_page() -> Page:
                async with session.put(f"http://127.0.0.1:{port}/json/new?about:blank") as response:
                    target = await response.json()
                address = target["webSocketDebuggerUrl"]
                page = Page(await session.ws_connect(address, max_msg_size=0, heartbeat=None), artefacts)
                pages.append(page)
                for domain in ("Page", "Runtime", "Log", "Network", "Audits", "DOM", "HeapProfiler"):
                    await page.call(f"{domain}.enable")
                await page.call(
                    "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
                )
                return page

            yield new_page
            for page in pages:
                await page.end()
    finally:
        process.kill()
        process.wait()


async def _port(file: Path, process: subprocess.Popen[bytes]) -> int:
    for _ in range(600):
        if process.poll() is not None:
            raise RuntimeError(f"the browser ended with {process.returncode}")
        if file.is_file() and (lines := file.read_text().splitlines()):
            return int(lines[0])
        await asyncio.sleep(0.05)
    raise RuntimeError("the browser did not start within 30 s")
