"""The whole story in a browser, on a desk and on a phone: a real PyTorch program from its upload to its receipt."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.needs import need, need_installed
from tests.web.browser import CHROMIUM, DESK, PHONE, RunningServer, chromium, open_context, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Locator, Page

need_installed("torch", "playwright", "axe_playwright_python", "fastapi")
pytestmark = [pytest.mark.heavy, pytest.mark.loopback]

PROGRAM = """
import time
import torch

torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.utils.data.TensorDataset(torch.randn(640, 64), torch.randn(640, 1))
for epoch in range(8):
    for features, labels in torch.utils.data.DataLoader(data, batch_size=32):
        time.sleep(0.02)
        loss = torch.nn.functional.mse_loss(model(features), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.3f}", flush=True)
torch.save(model.state_dict(), "model.pt")
"""
SIZES = {"desk": DESK, "phone": PHONE}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    if not CHROMIUM.exists():
        pytest.skip("Chromium is not installed: scripts/hosts installs it")
    if not Path("/usr/bin/bwrap").exists():
        pytest.skip("bubblewrap is not installed: scripts/hosts installs it")
    with serving(tmp_path_factory.mktemp("server"), TRAINFARE_ITERATIONS="40") as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    playwright = need("playwright.sync_api")
    with playwright.sync_playwright() as started, chromium(started) as found:
        yield found


@pytest.fixture(scope="module")
def cookies(browser: "Browser", server: RunningServer) -> list[Any]:
    """The session that the link of the server gives, which is good once."""
    context = open_context(browser, DESK)
    context.new_page().goto(server.link)
    found: list[Any] = list(context.cookies())
    context.close()
    return found


class Witness:
    """Notes what must not happen in a browser: an error in its console, or a request that leaves the server."""

    def __init__(self, context: "BrowserContext", server: RunningServer) -> None:
        self.complaints: list[str] = []
        self._host = server.host
        context.on(
            "console", lambda m: self.complaints.append(f"{m.location}: {m.text}"[:300]) if m.type == "error" else None
        )
        context.on("weberror", lambda error: self.complaints.append(str(error.error)))
        context.on("request", lambda request: self._see(request.url))

    def _see(self, url: str) -> None:
        if self._host not in url and not url.startswith("data:"):
            self.complaints.append(f"a request to {url}")


@pytest.fixture(params=SIZES, ids=str)
def page(
    request: pytest.FixtureRequest, browser: "Browser", server: RunningServer, cookies: list[Any]
) -> "Iterator[Page]":
    context = open_context(browser, SIZES[request.param])
    context.add_cookies(cookies)
    witness = Witness(context, server)
    yield context.new_page()
    context.close()
    assert witness.complaints == []


def check(page: "Page") -> None:
    """Nothing that axe calls serious, and nothing wider than the window."""
    axe = need("axe_playwright_python.sync_playwright").Axe()
    found = axe.run(page).response["violations"]
    serious = [
        f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found if each["impact"] in ("serious", "critical")
    ]
    assert serious == [], page.url
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"), page.url


def expect(locator: "Locator") -> Any:
    """What must become true of a part of the page, within some seconds."""
    return need("playwright.sync_api").expect(locator)


def shown(page: "Page", name: str) -> "Locator":
    """The button of this name that can be seen: a phone has it at the bottom, a desk at the top."""
    return page.get_by_role("button", name=re.compile(name)).locator("visible=true").first


def slide(page: "Page", name: str, key: str) -> None:
    """Move a slider by a key, and wait for the answer."""
    with page.expect_response(lambda response: "/offers" in response.url and response.ok):
        page.locator(f"#slide-{name}").press(key)
    page.wait_for_timeout(100)


def test_the_whole_story(page: "Page", server: RunningServer, tmp_path: Path) -> None:
    script = tmp_path / "train_small.py"
    script.write_text(PROGRAM)

    page.goto(f"{server.address}/new")
    check(page)
    page.locator("#upload").set_input_files(script)
    assert "train_small.py" in page.locator("#upload-name").inner_text()
    shown(page, "Profile it").click()
    page.wait_for_url("**/tasks/*")
    task = page.url
    check(page)
    page.wait_for_url("**/profiles/*/offers*", timeout=90_000)
    check(page)

    _ask_what_if(page)
    _talk_between_plot_and_table(page)

    page.wait_for_load_state("networkidle")
    page.goto(re.sub(r"\?.*", "", page.url))
    page.locator("#find").fill("computer")
    expect(page.locator("#machines tbody tr")).to_have_count(1)
    page.locator("#machines input[name=on]").check(force=True)
    shown(page, "Train here").click()
    page.wait_for_url("**/runs/new?*")
    confirmed = page.url
    check(page)
    shown(page, "Start now").click()
    page.wait_for_url("**/runs/r*")
    run = page.url
    check(page)
    page.get_by_text(re.compile(r"epoch \d+: loss")).first.wait_for(timeout=60_000)
    page.locator(".ticket").wait_for(timeout=60_000)
    assert "Trained in" in page.locator("h1").inner_text()
    check(page)
    with page.expect_download() as download:
        page.get_by_role("link", name="model.pt").click()
    assert download.value.path().stat().st_size > 1000

    page.goto(f"{server.address}/history")
    assert "train_small.py" in page.locator("tbody").first.inner_text()
    check(page)
    page.go_back()
    assert page.url == run
    page.reload()
    assert page.locator(".ticket").is_visible()
    page.goto(task)
    assert "/offers" in page.url, "a link to a profile that was taken leads to its offers"
    page.goto(confirmed)
    assert page.locator("h1").inner_text().startswith("Train on")


def _ask_what_if(page: "Page") -> None:
    """Sliders, filters and orders are answered in place, stand in the address, and outlast a reload."""
    page.locator("label", has_text="Only machines to rent").click()
    page.wait_for_url("**rent_only=1**")
    page.locator("#sort-time").evaluate("button => button.click()")
    page.wait_for_url("**sort=time**")
    before = page.locator("h1").inner_text()
    for _ in range(3):
        slide(page, "epochs", "ArrowRight")
    expect(page.locator("h1")).not_to_have_text(before)
    assert "sort=time" in page.url, "a slider keeps the order of the table"
    assert page.evaluate("document.activeElement.id") == "slide-epochs"
    slide(page, "weight", "ArrowRight")
    page.locator("label", has_text="Best trade-offs").click()
    page.wait_for_url("**show=front**")
    after, address = page.locator("h1").inner_text(), page.url
    page.reload()
    assert (page.locator("h1").inner_text(), page.url) == (after, address)
    page.locator("label", has_text=re.compile("^All$")).click()
    page.wait_for_url("**show=all**")


def _talk_between_plot_and_table(page: "Page") -> None:
    """A row picks its dot, and a dot its row, also one that the table did not show."""
    row = page.locator("#machines tbody tr").nth(2)
    row.locator("td.machine").click()
    assert "selected" in (row.get_attribute("class") or "")
    dot = page.locator("#plot circle.o").nth(40)
    key = dot.get_attribute("data-key")
    dot.evaluate("dot => dot.scrollIntoView({block: 'center'})")
    box = dot.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.locator("#machines input:checked")).to_have_value(key or "")
    assert page.locator("#plot .picked").get_attribute("data-key") == key


PAGES = ("/runs", "/queue", "/machines", "/history", "/compare", "/settings", "/new?epochs=many", "/runs/none")


@pytest.mark.parametrize("size", SIZES)
def test_every_page_can_be_read(browser: "Browser", server: RunningServer, cookies: list[Any], size: str) -> None:
    for dark in (False, True):
        context = open_context(browser, SIZES[size], dark=dark)
        context.add_cookies(cookies)
        page = context.new_page()
        for path in PAGES:
            page.goto(f"{server.address}{path}")
            check(page)
        context.close()


def test_a_form_is_filled_by_keys_alone(browser: "Browser", server: RunningServer, cookies: list[Any]) -> None:
    context = open_context(browser, DESK)
    context.add_cookies(cookies)
    page = context.new_page()
    page.goto(f"{server.address}/new")
    page.keyboard.press("Tab")
    assert page.locator(":focus").inner_text() == "Skip to the content"
    page.keyboard.press("Enter")
    reached = []
    for _ in range(30):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.innerText"))
    assert {"source-upload", "upload", "script", "arguments", "deadline", "budget", "Profile it"} <= set(reached)
    page.locator("#source-upload").focus()
    page.keyboard.press("ArrowRight")
    assert not page.locator("#upload").is_visible()
    context.close()
