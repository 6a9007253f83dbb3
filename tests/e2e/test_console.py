"""The console in a headless Chromium. Screenshots of all pages are kept in the directory KCM_SCREENSHOTS."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.e2e.programs import ROOT, Program, ending, free_port, spawn, until
from tests.e2e.test_control import DEPLOYMENTS, KCM, audited, deployment, managing_real_cluster, token_of
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
    "rates": "rates",
    "rate": "rates?client=deployment-controller",
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
    program = spawn([*KCM, *flags], directory / "log", cwd=ROOT)
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


def use(profile: Path, what: Callable[[Page], Awaitable[None]], *, accepted: str = "") -> None:
    """Use a tab of a new browser, and check that nothing was complained about.

    accepted: part of complaints that are expected; "" for none.
    """

    async def run() -> None:
        async with browser(profile) as new_page:
            page: Page = await new_page()
            await what(page)
            assert [text for text in page.complaints if not accepted or accepted not in text] == []

    asyncio.run(run())


async def sign_in(page: Page, link: str) -> None:
    await page.open(link)
    await page.until(CONTENT)
    assert "key" not in await page.evaluate("location.href")


async def shown(page: Page, address: str) -> None:
    await page.open(address)
    await page.until(CONTENT)
    await page.until("!!document.querySelector('main h1').textContent")


async def press_button(page: Page, label: str) -> None:
    """Wait until a button is shown, walk to it with Tab, and press it with Enter."""
    enabled = "[...document.querySelectorAll('button:enabled')]"
    await page.until(f"{enabled}.some((button) => button.textContent === '{label}')")
    for _ in range(150):
        await page.press("Tab")
        if await page.evaluate("document.activeElement.textContent") == label:
            break
    else:
        raise AssertionError(f"Tab does not reach {label}")
    await page.press("Enter")


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
    program = spawn([*KCM, "journal", "serve", str(journal)], tmp_path / "log", cwd=ROOT)
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
            await press_button(page, label)
            await page.until(f"document.querySelector('main .state').textContent.includes({state!r})")
            await page.evaluate("document.getElementById('title').focus()")
        await page.evaluate("history.back()")
        await page.until("location.pathname === '/console/controllers'")

    use(tmp_path, walk)


def test_rates_are_changed_and_reset_by_keyboard(link: str, tmp_path: Path) -> None:
    notice = "document.querySelector('[aria-live] .notice')?.textContent.includes({!r})"
    row = "document.querySelector('main table tbody').textContent"

    async def change(page: Page) -> None:
        await sign_in(page, link)
        await shown(page, at(link, "rates?q=deployment-controller"))
        await press_button(page, "Change")
        await page.until("document.activeElement.id === 'client-qps'")
        assert "client=deployment-controller" in await page.evaluate("location.search")
        await page.evaluate("document.activeElement.select()")
        await page.type("7")
        await asyncio.sleep(1.5)  # a further sample, which leaves the entered text alone
        assert await page.evaluate("document.activeElement.value") == "7"
        await page.press("Enter")
        await page.until(notice.format("deployment-controller has the limit 7/s"))
        await page.until(f"{row}.includes('(set)')")
        assert await violations(page) == []
        await press_button(page, "Usual rate")
        await page.until(f"!{row}.includes('(set)')")
        await press_button(page, "Close")
        await page.until("!document.getElementById('client-qps') && !location.search.includes('client=')")
        await page.evaluate("document.getElementById('title').focus()")
        await press_button(page, "Engage the storm brake")
        await press_button(page, "Release the storm brake")
        await page.until(notice.format("The storm brake is released"))
        await shown(page, at(link, "zones"))
        await page.until("!!document.querySelector('tbody input[name=qps]')")
        await page.evaluate("document.querySelector('tbody input[name=qps]').focus()")
        await page.type("0.5")
        await page.press("Enter")
        await page.until(f"{row}.includes('0.5 nodes/s (set)')")
        await press_button(page, "Usual rate")
        await page.until(f"!{row}.includes('(set)')")

    use(tmp_path, change)


def test_program_of_kcm_main_has_a_console(tmp_path: Path) -> None:
    flags = ["--embedded-in-memory", f"--embedded-dir={tmp_path / 'cluster'}", "--hollow-nodes=0"]
    flags += ["--apply=website-crd.yml", f"--secure-port={free_port()}"]
    program = spawn([sys.executable, "website_controller.py", *flags], tmp_path / "log", cwd=ROOT / "examples")
    with ending(program):
        found = until(lambda: LINK.search(program.text()), "the greeting shows the link", why=program.text)
        url, _, key = found[0].partition("#key=")
        request = Request(f"{url}api/access", headers={"Authorization": f"Bearer {key}"})
        with urlopen(request, timeout=10.0) as response:
            assert {"system", "story", "rates"} <= set(json.load(response)["topics"])


@pytest.mark.cluster
def test_rights_of_a_real_clusters_users_decide_what_is_shown_and_offered(tmp_path: Path) -> None:
    """Sign in with tokens of ServiceAccounts: one may change things, one may look, and one may do nothing."""
    chromium()
    with managing_real_cluster(tmp_path) as (api, program, port):
        api.request("POST", DEPLOYMENTS, deployment("web", 2, "nginx"))
        changing = ["/controllers/*", "/clients/*", "/zones/*", "/brake/*"]
        operator = token_of(api, "operator", get=["/console/*"], post=changing)
        viewer, stranger = token_of(api, "viewer", get=["/console/*"]), token_of(api, "stranger")
        until(lambda: "Successfully acquired lease" in program.text(), "it leads", why=program.text)
        here = f"https://127.0.0.1:{port}/console/"

        async def entered(page: Page, token: str) -> None:
            await page.call("Security.setIgnoreCertificateErrors", ignore=True)
            await page.open(here)
            await page.until("!!document.querySelector('#token')")
            await page.evaluate("document.querySelector('#token').focus()")
            await page.type(token)
            await page.press("Enter")

        async def change(page: Page) -> None:
            await entered(page, operator)
            await page.until(CONTENT)
            pages = [name for name in PAGES if name != "faults"]
            assert "Faults" not in await page.evaluate("document.querySelector('nav').textContent")
            for name in pages:
                await shown(page, here + PAGES[name].replace("name=redis", "name=web"))
            await shown(page, f"{here}controllers/deployment-controller")
            await page.until("[...document.querySelectorAll('button')].some((b) => b.textContent === 'Pause')")
            for label, state in (("Pause", "Paused"), ("Resume", "Running")):
                await press_button(page, label)
                await page.until(f"document.querySelector('main .state').textContent.includes({state!r})")
            await page.screenshot("real-operator")

        async def look(page: Page) -> None:
            await entered(page, viewer)
            await page.until(CONTENT)
            for address in ("controllers/deployment-controller", "zones", "rates"):
                await shown(page, here + address)
                await page.until("document.querySelector('main').textContent.toLowerCase().includes('read-only')")
                offered = await page.evaluate(
                    "[...document.querySelectorAll('main button:not(.sort)')].map((button) => button.textContent)"
                )
                assert offered == []
            await page.screenshot("real-viewer")

        async def refused(page: Page) -> None:
            refusal = "document.querySelector('main .notice.bad')?.textContent.includes({!r})"
            await entered(page, stranger)
            await page.until(refusal.format('This user may not use the console: forbidden: User "system:service'))
            assert await violations(page) == []
            await page.screenshot("real-stranger")
            await entered(page, "invalid")
            await page.until(refusal.format("The token is not accepted"))

        use(tmp_path / "operator", change)
        use(tmp_path / "viewer", look)
        use(tmp_path / "stranger", refused, accepted="the server responded with a status of 40")
        audit = [(user, action, outcome) for user, action, _, outcome in audited(program)]
        account = "system:serviceaccount:default:operator"
        assert audit == [(account, "pause", "Done"), (account, "resume", "Done")]


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
