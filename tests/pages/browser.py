"""Chromium, as a reader has it: opened on a page, with what it says and asks for."""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

AXE = Path(__file__).parents[2] / ".axe" / "axe.min.js"
DESKTOP, PHONE = 1200, 380
SCHEMES = ("light", "dark")
WIDTHS = (DESKTOP, PHONE)
_LONGEST = 60  # seconds that anything may take


def missing():
    """Return why there is no browser; None: there is one."""
    for program in ("chromium", "chromedriver"):
        if shutil.which(program) is None:
            return f"no {program} (make system installs it)"
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "no selenium: pip install selenium"
    return None


@dataclass(frozen=True)
class Browser:
    """A browser, and what it does with a file."""

    driver: Any

    def open(self, path, width=DESKTOP, scheme="light"):
        """Open a page at a width and in a scheme; what it said before is forgotten."""
        self._tell("Emulation.setDeviceMetricsOverride", width=width, height=900,
                   deviceScaleFactor=1, mobile=width < DESKTOP)  # fmt: skip
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self._tell("Emulation.setEmulatedMedia", features=[feature])
        self.said()
        self.asked()
        self.driver.get(f"file://{path}")

    def said(self):
        """Return what stands in the console."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def asked(self):
        """Return every address that was asked for but the last page itself."""
        events = [json.loads(e["message"])["message"] for e in self.driver.get_log("performance")]
        sent = [e["params"] for e in events if e["method"] == "Network.requestWillBeSent"]
        urls = [one["request"]["url"] for one in sent if one["type"] != "Document"]
        return [url for url in urls if url != "data:,"]  # the icon, which is empty

    def evaluate(self, script, *arguments):
        """Return what a script of ours finds on the page."""
        return self.driver.execute_script(script, *arguments)

    def faults(self):
        """Return the serious faults that axe finds; everything that is folded is opened before."""
        self.evaluate("for (const d of document.querySelectorAll('details')) d.open = true")
        self.evaluate(AXE.read_text(encoding="utf-8"))
        found = self.driver.execute_async_script(
            "const done = arguments[0];"
            "axe.run({resultTypes: ['violations']}).then(r => done(r.violations), e => done(e))"
        )
        assert isinstance(found, list), found
        return [
            (one["id"], one["nodes"][0]["html"], one["nodes"][0]["failureSummary"])
            for one in found
            if one["impact"] in ("serious", "critical")
        ]

    def _tell(self, command, **arguments):
        self.driver.execute_cdp_cmd(command, arguments)


@contextmanager
def started():
    """Yield a browser, and end it."""
    if (why := missing()) is not None:
        pytest.skip(why)
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
