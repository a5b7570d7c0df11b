"""Pages in a browser: whole and readable on a desk and on a phone, and self-contained."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from report import made_reports
from saved_reports import written
from tables import table

from gpumap.model.io import read
from gpumap.report import Style
from gpumap.results.shown import render

pytest.importorskip("matplotlib", reason="no matplotlib: pip install matplotlib")

SCRIPTS = table(__file__)
AXE = Path(__file__).parents[2] / ".axe" / "axe.min.js"
DESKTOP, PHONE = 1200, 380
SCHEMES = ("light", "dark")
WIDTHS = (DESKTOP, PHONE)
_LONGEST = 60  # seconds that anything may take
RUNS = ("dot", "copies", "train", "selftest", "predict", "check", "bad map", "devices", "doctor")


@dataclass(frozen=True)
class Browser:
    driver: Any

    def open(self, path, width=DESKTOP, scheme="light"):
        """Open a page at a width and in a scheme; what it said before is forgotten."""
        tell = self.driver.execute_cdp_cmd
        screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < DESKTOP}
        tell("Emulation.setDeviceMetricsOverride", screen)
        feature = {"name": "prefers-color-scheme", "value": scheme}
        tell("Emulation.setEmulatedMedia", {"features": [feature]})
        self.said()
        self.asked()
        self.driver.get(f"file://{path}")

    def said(self):
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def asked(self):
        events = [json.loads(e["message"])["message"] for e in self.driver.get_log("performance")]
        sent = [e["params"] for e in events if e["method"] == "Network.requestWillBeSent"]
        urls = [one["request"]["url"] for one in sent if one["type"] != "Document"]
        return [url for url in urls if url != "data:,"]  # the icon, which is empty

    def evaluate(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def faults(self):
        self.evaluate(AXE.read_text(encoding="utf-8"))
        found = self.driver.execute_async_script(SCRIPTS["faults"])
        assert isinstance(found, list), found
        return [
            (one["id"], one["nodes"][0]["html"], one["nodes"][0]["failureSummary"])
            for one in found
            if one["impact"] in ("serious", "critical")
        ]


@pytest.fixture(scope="module")
def browser():
    for program in ("chromium", "chromedriver"):
        if shutil.which(program) is None:
            pytest.skip(f"no {program} (make system installs it)")
    pytest.importorskip("selenium", reason="no selenium: pip install selenium")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    # as root there is no sandbox; /dev/shm is small in containers
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, Service(shutil.which("chromedriver")))
    try:
        driver.set_page_load_timeout(_LONGEST)
        driver.set_script_timeout(_LONGEST)
        yield Browser(driver)
    finally:
        driver.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")

    def made(name):
        path = folder / f"{name.replace(' ', '-')}.html"
        if not path.exists():
            made = {"trace": made_reports.traced, "matrix": lambda: made_reports.matrix(8),
                    "slower": made_reports.regression}  # fmt: skip
            report = made.get(name) or (lambda: read(written(name).path))
            path.write_text(render("html", report(), Style()), encoding="utf-8")
        return path

    return made


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", [*RUNS, "trace", "slower"])
def test_a_page_is_quiet_and_fits(browser, pages, name, width, scheme):
    """No word in the console, no request, no sideways scrolling; the right colours."""
    browser.open(pages(name), width, scheme)
    assert browser.evaluate("return performance.getEntriesByType('resource').length") == 0
    overflow = browser.evaluate(SCRIPTS["overflow"])
    assert (browser.said(), browser.asked(), overflow) == ([], [], 0)
    ground = browser.evaluate("return getComputedStyle(document.body).backgroundColor")
    bright = sum(int(part) for part in ground[4:-1].split(",")) > 3 * 128
    assert bright == (scheme == "light")


@pytest.mark.skipif(not AXE.exists(), reason="no axe-core: make axe (takes npm)")
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", [*RUNS, "trace"])
def test_a_page_has_no_serious_fault(browser, pages, name, scheme):
    """Names, contrast, order, what the keyboard reaches: as far as a machine can tell."""
    browser.open(pages(name), PHONE, scheme)
    assert browser.faults() == []


@pytest.mark.parametrize("name", ["dot", "copies", "train", "trace", "matrix", "slower"])
def test_no_text_of_a_chart_stands_outside(browser, pages, name):
    browser.open(pages(name))
    assert browser.evaluate(SCRIPTS["outside"]) == []


@pytest.mark.parametrize(("name", "wanted"), [
    ("slower", "h1, figure svg, td.bad, .stack td"), ("dot", "h1, figure svg, figcaption h3"),
])  # fmt: skip
def test_the_answer_is_seen_on_a_phone(browser, pages, name, wanted):
    """The metric and the verdict are within the window, without scrolling sideways."""
    browser.open(pages(name), PHONE)
    edges = browser.evaluate(SCRIPTS["edges"], wanted)
    assert len(edges) > 2
    assert [(left, right) for left, right in edges if left < 0 or right > PHONE] == []
