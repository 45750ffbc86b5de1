"""What a browser makes of many runs: `python -m benchmarks.pages [--only MEASURE …] [--seconds 15]`.

JSON lines, from a real platform and a headless Chromium on one machine. Each page is loaded three times, and the last
of them is scrolled by the wheel, 600 pixels twenty times a second:
table_10k      an experiment of 10,000 runs with 6 metrics, sorted by one of them
compare_50x24  50 runs x 24 metrics of 2,000 points side by side
first_ms        median, from the click to the frame with the first row, or with the first drawn chart
load_tasks_ms   tasks longer than 50 ms until then and three seconds after it, those of the last load
scroll_tasks_ms such tasks while it is scrolled
frame_ms        time between two frames while it is scrolled: [median, 99th percentile, longest]
elements        rows, or drawn charts, that the page has: [seen to the end of the scroll, most at once]
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import Page, sync_playwright

from benchmarks.metrics import ROOT, report
from benchmarks.rig import tracking_live
from webapp.operations.cast import CAST
from webapp.operations.platform_process import PlatformProcess
from webapp.operations.state_folder import read_environment

LOADS, PATIENCE_S = 3, 180
SETTLE_S, TURN_S, TURN_PIXELS = 3.0, 0.05, 600
# `first` is what the page is opened for; `each` what there may be too many of, and `reached` how far one has come.
MEASURES = {
    "table_10k": {
        "first": "!!document.querySelector('#run-table [data-pick]')",
        "each": "document.querySelectorAll('#run-table tbody tr').length",
        "reached": "Math.max(0, ...[...document.querySelectorAll('#run-table [aria-rowindex]')]"
        ".map((row) => Number(row.getAttribute('aria-rowindex')) - 1))",
    },
    "compare_50x24": {
        "first": "[...document.querySelectorAll('.plot')].some((plot) => plot.data?.length)",
        "each": "[...document.querySelectorAll('.plot')].filter((plot) => plot.data?.length).length",
        "reached": "document.querySelectorAll('.plot').length",
    },
}
OBSERVER = """
window.tasks = []; window.frames = []; window.firstAt = 0; window.most = 0;
new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map(({ duration }) => Math.round(duration))))
  .observe({ type: "longtask", buffered: true });
let before = 0;
const frame = (now) => {
  if (before) window.frames.push(now - before);
  before = now;
  if (!window.firstAt && document.body && (FIRST)) window.firstAt = performance.now();
  if (window.firstAt && window.frames.length % 10 === 0) window.most = Math.max(window.most, EACH);
  requestAnimationFrame(frame);
};
requestAnimationFrame(frame);
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=list(MEASURES), default=list(MEASURES))
    parser.add_argument("--seconds", type=float, default=15, help="how long each page is scrolled")
    options = parser.parse_args()
    with tracking_live.platform("--agents", "0") as (process, _):
        addresses = {measure: _address(process, measure) for measure in options.only}
        for measure, address in addresses.items():
            report(measure, measured(process.url, measure, address, options.seconds))


def _address(process: PlatformProcess, measure: str) -> str:
    """Of the page, whose runs it makes first."""
    command = [sys.executable, "-m", "benchmarks.rig.tracking_store", f"runs_of_{measure}"]
    environment = os.environ | read_environment(process.folder / "platform.env")
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"The runs of {measure} were not made:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    made = json.loads(done.stdout.splitlines()[-1])
    if measure == "table_10k":
        return f"/experiments/{made['experiment']}/?{urlencode({'order': 'metrics.`val/loss` ASC'})}"
    return f"/experiments/compare/?runs={','.join(made['runs'])}"


def measured(url: str, measure: str, address: str, seconds: float) -> dict[str, Any]:
    known = MEASURES[measure]
    observer = OBSERVER.replace("FIRST", known["first"]).replace("EACH", known["each"])
    with signed_in(url) as page:
        page.add_init_script(observer)
        first = []
        for _ in range(LOADS):
            page.goto(f"{url}{address}", wait_until="commit")
            first.append(_first(page))
        time.sleep(SETTLE_S)
        loading = page.evaluate("window.tasks.splice(0)")
        page.evaluate("window.frames.length = 0")
        _scroll(page, seconds)
        frames = sorted(page.evaluate("window.frames"))
        return {
            "first_ms": round(statistics.median(first)),
            "load_tasks_ms": loading,
            "scroll_tasks_ms": page.evaluate("window.tasks"),
            "frame_ms": [
                round(frames[place], 1)
                for place in (len(frames) // 2, int(len(frames) * 0.99), len(frames) - 1)
            ],
            "elements": [page.evaluate(known["reached"]), page.evaluate("window.most")],
        }


def _first(page: Page) -> float:
    """Asks again and again: a wait of Playwright's needs eval, which our pages forbid."""
    deadline = time.monotonic() + PATIENCE_S
    while not (at := page.evaluate("window.firstAt")):
        if time.monotonic() > deadline:
            sys.exit(f"{page.url[:200]} showed nothing within {PATIENCE_S} s")
        time.sleep(TURN_S)
    return float(at)


def _scroll(page: Page, seconds: float) -> None:
    viewport = page.viewport_size or {"width": 0, "height": 0}
    page.mouse.move(viewport["width"] / 2, viewport["height"] / 2)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        page.mouse.wheel(0, TURN_PIXELS)
        time.sleep(TURN_S)


@contextmanager
def signed_in(url: str) -> Iterator[Page]:
    """A page of alice's browser."""
    password = next(person.password for person in CAST if person.username == "alice")
    with sync_playwright() as playwright:
        switches = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=switches)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.set_default_timeout(1000 * PATIENCE_S)
        page.goto(f"{url}/login/")
        page.get_by_label("Username").fill("alice")
        page.get_by_label("Password").fill(password)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(lambda address: "/login" not in address)
        yield page
        browser.close()


if __name__ == "__main__":
    main()
