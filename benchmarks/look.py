"""Makes a PNG of every page, on a desk and on a phone, light and dark, to be looked at.

    python -m benchmarks.look OUT [--home DIR] [--only WORD]

The server has real content: a profile of examples/pytorch_cnn.py, runs of it on this machine, one of which is under
way, and a queue. `--home` keeps that content for the next time.
"""

import argparse
import contextlib
import json
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from playwright.sync_api import ConsoleMessage, Page, sync_playwright

from tests.web.browser import DESK, PHONE, chromium, command, open_context, serving

EXAMPLES = Path(__file__).parents[1] / "examples"
SIZES = {"desk": DESK, "phone": PHONE}


def fill(home: Path, environment: dict[str, str]) -> dict[str, str]:
    """Profiles, runs and a queue. Returns the ids that pages need."""
    kept = home / "ids.json"
    if kept.is_file():
        found: dict[str, str] = json.loads(kept.read_text())
        return found
    program = home / "program"
    program.mkdir(parents=True, exist_ok=True)
    (program / "pytorch_cnn.py").write_bytes((EXAMPLES / "pytorch_cnn.py").read_bytes())

    def trainfare(*words: str) -> str:
        return command(*words, environment=environment, directory=program)

    profile = json.loads(
        trainfare("profile", "--json", "--quiet", "--", "python3", "pytorch_cnn.py", "--epochs", "20")
    )["id"]
    runs = []
    for epochs in ("4", "8", "12"):
        words = ("--profile", profile, "--on", "local/here", "--yes", "--json", "--", "python3", "pytorch_cnn.py")
        runs.append(json.loads(trainfare("run", *words, "--epochs", epochs))["id"])
    for epochs, deadline in (("200", "4h"), ("1000", "6h"), ("3000", "2d")):
        trainfare("schedule", "submit", profile, "--epochs", epochs, "--deadline", deadline)
    found = {"profile": profile, "run": runs[-1]}
    kept.write_text(json.dumps(found))
    return found


def start_long_run(home: Path, environment: dict[str, str], profile: str) -> str:
    """A run that is under way while the pages are looked at."""
    words = ("run", "--profile", profile, "--on", "local/here", "--yes", "--detach")
    program = ("--", "python3", "pytorch_cnn.py", "--epochs", "400")
    command(*words, *program, environment=environment, directory=home / "program")
    listed = json.loads(command("runs", "list", "--json", environment=environment))
    return str((listed["runs"] if isinstance(listed, dict) else listed)[0]["id"])


def addresses(ids: dict[str, str], watched: str) -> dict[str, str]:
    """Every page, and the states of it that look different."""
    offers = f"/profiles/{ids['profile']}/offers"
    asked = "epochs=2000&deadline=2h&budget=2&rent_only=1"
    return {
        "new": "/new",
        "new-wrong": "/new?epochs=many",
        "offers": f"{offers}?{asked}",
        "offers-here": offers,
        "offers-all": f"{offers}?{asked}&show=all&spot=1&sort=time",
        "offers-none": f"{offers}?epochs=100000&deadline=5min&budget=0.01&rent_only=1",
        "confirm": f"/runs/new?profile={ids['profile']}&on=local/here",
        "watch": f"/runs/{watched}",
        "stop": f"/runs/{watched}/stop",
        "results": f"/runs/{ids['run']}",
        "runs": "/runs",
        "queue": "/queue",
        "machines": "/machines",
        "machines-none": "/machines?gpu=none",
        "history": "/history",
        "compare": "/compare",
        "settings": "/settings",
        "missing": "/runs/none",
    }


EMPTY = {"empty-runs": "/runs", "empty-queue": "/queue", "empty-history": "/history", "empty-compare": "/compare"}


@contextmanager
def pages(link: str) -> Iterator[dict[tuple[str, str], Page]]:
    """A signed-in page for each size and scheme."""
    with sync_playwright() as playwright, chromium(playwright) as browser:
        first = open_context(browser, DESK)
        first.new_page().goto(link)
        state = first.storage_state()
        found = {}
        for size, pixels in SIZES.items():
            for scheme in ("light", "dark"):
                context = open_context(browser, pixels, dark=scheme == "dark")
                context.add_cookies(state["cookies"])  # type: ignore[arg-type] # as the other context has them
                found[size, scheme] = context.new_page()
        yield found


def _note(noise: list[str], message: ConsoleMessage) -> None:
    noise.append(message.text)


def look(views: dict[tuple[str, str], Page], address: str, wanted: dict[str, str], out: Path) -> None:
    """Write the pictures, and say what is wrong with a page that can be seen without eyes."""
    for name, path in wanted.items():
        for (size, scheme), page in views.items():
            noise: list[str] = []
            page.once("console", partial(_note, noise))
            page.goto(f"{address}{path}")
            page.wait_for_timeout(600)
            page.screenshot(path=out / f"{name}-{size}-{scheme}.png", full_page=True)
            over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            if over > 0:
                noise.append(f"{over} px wider than the window")
            size_kb = len(page.content()) / 1000
            if scheme == "light":
                print(f"{name:14} {size:6} {size_kb:6.0f} kB {'; '.join(noise)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("out", type=Path, metavar="OUT", help="the folder of the pictures")
    parser.add_argument("--home", type=Path, metavar="DIR", help="keep the content of the server here")
    parser.add_argument("--only", default="", metavar="WORD", help="only pages whose name has this word")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        home = (options.home or Path(temporary) / "home").absolute()
        empty = Path(temporary) / "empty"
        home.mkdir(parents=True, exist_ok=True)
        empty.mkdir()
        with serving(home) as server:
            ids = fill(home, server.environment)
            watched = start_long_run(home, server.environment, ids["profile"])
            wanted = {name: path for name, path in addresses(ids, watched).items() if options.only in name}
            with pages(server.link) as views:
                look(views, server.address, wanted, options.out)
            with contextlib.suppress(subprocess.CalledProcessError):  # it may have ended
                command("stop", watched, environment=server.environment)
        if "empty".startswith(options.only) or options.only.startswith("empty"):
            with serving(empty) as server, pages(server.link) as views:
                look(views, server.address, EMPTY, options.out)


if __name__ == "__main__":
    main()
