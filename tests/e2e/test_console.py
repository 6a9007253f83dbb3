"""The console in a headless Chromium. Screenshots of all pages are kept in the directory KCM_SCREENSHOTS."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.programs import ROOT, Program, ending, spawn, until
from tests.support.browser import Page, browser, chromium

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

AXE = (Path(__file__).parent / "axe" / "axe.min.js").read_text()
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
LINK = re.compile(r"(http://127\.0\.0\.1:\d+)/console/#key=[\w-]+")
FIRST_VIEW = 150_000  # bytes
QUICK, VIEWS = 1000, 8  # milliseconds to the first view; attempts
MOST_PASSES_WITHOUT_A_PAGE = 10  # rules of axe-core that an empty page meets
PAGES = {
    "supervision": "tree",
    "graph": "tree?view=graph",
    "controllers": "controllers?sort=-queued&q=controller",
    "controller": "controllers/deployment-controller",
    "zones": "zones",
    "pods": "pods",
    "story": "story?kind=Deployment&namespace=default&name=redis",
    "why": "why?kind=Deployment&namespace=default&name=redis",
    "faults": "faults",
}
CONTENT = (
    "!!document.querySelector('main table, main svg, main .timeline') && !document.querySelector('main .notice.bad')"
)
TABBABLE = "a[href], button:not(:disabled), input, select, [tabindex='0']"


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    chromium()  # skips before anything is started
    directory = tmp_path_factory.mktemp("console")
    flags = ["--embedded-in-memory", f"--embedded-dir={directory / 'cluster'}", "--hollow-nodes=4"]
    flags += ["--apply=examples/redis-deployment.yml", f"--journal={directory / 'journal'}"]
    command = [sys.executable, "-P", "-m", "kcm.actors.command", *flags]
    program = spawn(command, directory / "log", cwd=ROOT)
    with ending(program):
        until(lambda: LINK.search(program.text()), "the greeting shows the link", why=program.text)
        yield program


@pytest.fixture
def link(manager: Program) -> str:
    found = LINK.search(manager.text())
    assert found is not None
    return found[0]


def at(link: str, address: str) -> str:
    return f"{link.partition('/console/')[0]}/console/{address}"


def use(profile: Path, what: Callable[[Page], Awaitable[None]]) -> None:
    """Use a tab of a new browser, and check that nothing was complained about."""

    async def run() -> None:
        async with browser(profile) as new_page:
            page: Page = await new_page()
            await what(page)
            assert page.complaints == []

    asyncio.run(run())


async def sign_in(page: Page, link: str) -> None:
    await page.open(link)
    await page.until(CONTENT)
    assert "key" not in await page.evaluate("location.href")


async def shown(page: Page, address: str) -> None:
    await page.open(address)
    await page.until(CONTENT)
    await page.until("!!document.querySelector('main h1').textContent")


async def violations(page: Page) -> list[str]:
    """Return what axe-core complains about."""
    await page.evaluate(f"if (!globalThis.axe) {{ {AXE} }}; undefined")
    found: dict[str, Any] = await page.evaluate(
        f"axe.run(document, {{runOnly: {TAGS}, resultTypes: ['violations']}}).then(({{violations, passes}}) => "
        "({passes: passes.length, violations: violations.map(({id, help, nodes}) => "
        "({id, help, nodes: nodes.slice(0, 3).map((node) => node.html + ' ' + node.failureSummary)}))}))"
    )
    assert found["passes"] > MOST_PASSES_WITHOUT_A_PAGE
    return [f"{entry['id']}: {entry['help']}: {entry['nodes']}" for entry in found["violations"]]


def test_first_view_is_small_and_quick(link: str, tmp_path: Path) -> None:
    async def look(page: Page) -> None:
        await sign_in(page, link)
        await page.until("document.querySelectorAll('tbody tr').length > 50")
        sizes = {request["url"]: request.get("bytes", 0) for request in page.requests.values() if "url" in request}
        assert sum(sizes.values()) < FIRST_VIEW
        assert all(url.startswith(at(link, "")) for url in sizes)
        # The quickest of a few views without a cache: other tests may need the processor meanwhile.
        await page.call("Network.setCacheDisabled", cacheDisabled=True)
        times = []
        while len(times) < VIEWS and min(times, default=QUICK) >= QUICK:
            await page.open(at(link, "tree"))
            await page.until("document.querySelectorAll('tbody tr').length > 50")
            entry = "performance.getEntriesByType('paint').find((entry) => entry.name === 'first-contentful-paint')"
            times.append(await page.evaluate(f"{entry}.startTime"))
        assert min(times) < QUICK

    use(tmp_path, look)


def test_pages_are_accessible_and_complain_about_nothing(link: str, tmp_path: Path) -> None:
    async def look(page: Page) -> None:
        await sign_in(page, link)
        found = {}
        for name, address in PAGES.items():
            await shown(page, at(link, address))
            await asyncio.sleep(1.2)  # a further sample
            for scheme in ("light", "dark"):
                features = [{"name": "prefers-color-scheme", "value": scheme}]
                await page.call("Emulation.setEmulatedMedia", features=features)
                await page.screenshot(f"{name}-{scheme}")
                found[name, scheme] = await violations(page)
        assert {where: what for where, what in found.items() if what} == {}

    use(tmp_path, look)


def test_journal_is_shown_step_by_step(manager: Program, tmp_path: Path) -> None:
    journal = manager.output.parent / "journal"
    serve = [sys.executable, "-P", "-m", "kcm.actors.command", "journal", "serve", str(journal)]
    program = spawn(serve, tmp_path / "log", cwd=ROOT)
    with ending(program):
        found = until(lambda: LINK.search(program.text()), "the link is printed", why=program.text)

        async def travel(page: Page) -> None:
            await sign_in(page, found[0])
            query = "at=300&controller=deployment-controller&table=apps/v1/deployments"
            await shown(page, at(found[0], f"journal?{query}"))
            await page.screenshot("journal")
            assert await violations(page) == []
            await page.evaluate("document.getElementById('position').focus()")
            await page.press("ArrowRight")
            await page.until("location.search.includes('at=301')")
            await page.until("document.querySelector('label[for=position]').textContent.startsWith('Step 301 ')")

        use(tmp_path / "profile", travel)


def test_keyboard_reaches_and_operates_everything(link: str, tmp_path: Path) -> None:
    async def walk(page: Page) -> None:
        await sign_in(page, link)
        await shown(page, at(link, "controllers"))
        await page.until("document.querySelectorAll('tbody a').length > 0")
        await page.press("Tab")
        assert await page.evaluate("document.activeElement.textContent") == "Skip to the content"
        await page.evaluate("globalThis.walked = new Set(); undefined")
        stops = await page.evaluate(f"document.querySelectorAll({TABBABLE!r}).length")
        for _ in range(stops + 5):
            visible = await page.evaluate(
                "walked.add(document.activeElement), document.activeElement.matches('body, :focus-visible')"
            )
            assert visible
            await page.press("Tab")
        missed = await page.evaluate(
            f"[...document.querySelectorAll({TABBABLE!r})].filter((e) => !walked.has(e)).map((e) => e.outerHTML)"
        )
        assert missed == []
        # Open a controller, pause it and resume it.
        await page.evaluate(
            "[...document.querySelectorAll('tbody a')].find((a) => a.textContent === 'ttl-controller').focus()"
        )
        await page.press("Enter")
        await page.until(
            "document.activeElement.id === 'title' && document.activeElement.textContent === 'ttl-controller'"
        )
        await page.until(
            "[...document.querySelectorAll('button')].some((b) => b.textContent === 'Pause' && !b.disabled)"
        )
        for label, state in (("Pause", "Paused"), ("Resume", "Running")):
            for _ in range(30):
                await page.press("Tab")
                if await page.evaluate("document.activeElement.textContent") == label:
                    break
            await page.press("Enter")
            await page.until(f"document.querySelector('main .state').textContent.includes({state!r})")
            await page.evaluate("document.getElementById('title').focus()")
        await page.evaluate("history.back()")
        await page.until("location.pathname === '/console/controllers'")

    use(tmp_path, walk)


def test_fault_board_silences_a_zone_and_undoes_it(link: str, tmp_path: Path) -> None:
    async def act(page: Page) -> None:
        await sign_in(page, link)
        await shown(page, at(link, "faults"))
        press = "[...document.querySelectorAll('button')].find((b) => b.textContent === '{}' && !b.disabled)"
        await page.until(f"!!{press.format('Silence the zone')}")
        await page.evaluate(f"{press.format('Silence the zone')}.click()")
        await page.until("document.body.innerText.includes('2 nodes silenced')")
        await page.until(f"!!{press.format('Undo all faults')}")
        await page.screenshot("faults-on")
        await page.evaluate(f"{press.format('Undo all faults')}.click()")
        await page.until("document.body.innerText.includes('No fault is on')")

    use(tmp_path, act)


def test_page_without_a_valid_key_offers_to_sign_in(link: str, tmp_path: Path) -> None:
    async def look(page: Page) -> None:
        await page.open(at(link, "controllers"))
        await page.until("!!document.querySelector('input[type=password]')")
        assert await violations(page) == []
        await page.screenshot("sign-in")
        await page.evaluate("document.querySelector('#token').focus()")
        await page.type(link.partition("#key=")[2])
        await page.press("Enter")
        await page.until(CONTENT)

    use(tmp_path, look)


def test_reduced_motion_and_hidden_tabs_are_respected(link: str, tmp_path: Path) -> None:
    async def look(page: Page) -> None:
        await sign_in(page, link)
        reduced = [{"name": "prefers-reduced-motion", "value": "reduce"}]
        await page.call("Emulation.setEmulatedMedia", features=reduced)
        moving = (
            "document.getAnimations().length || getComputedStyle(document.documentElement).scrollBehavior === 'smooth'"
        )
        assert not await page.evaluate(moving)

    use(tmp_path, look)
