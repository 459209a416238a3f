"""The dashboard in a real browser: a page with what tests do on it, and a server for it."""
import contextlib
import os
import pathlib
import time

import pytest
from selenium import webdriver
from selenium.common.exceptions import (ElementClickInterceptedException, ElementNotInteractableException,
                                        StaleElementReferenceException)
from selenium.webdriver.chrome.service import Service

from harness import PATIENCE_S, Server
from ports import free_port
from web import Web, web_port

WEB = pathlib.Path(__file__).parents[2] / "web"
SHOTS = os.environ.get("DASHBOARD_SHOTS")
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--no-first-run", "--disable-quic",
         "--disable-dev-shm-usage", "--hide-scrollbars", "--force-prefers-reduced-motion")


# ---- the browser ----

# What a page may do to a hand that is slow: draw something anew, or over it. It tries again.
PASSES = (StaleElementReferenceException, ElementClickInterceptedException, ElementNotInteractableException)
FIND = """const found = document.evaluate(arguments[0], document, null, XPathResult.ORDERED_NODE_SNAPSHOT_TYPE, null);
return Array.from({length: found.snapshotLength}, (_, i) => found.snapshotItem(i)).filter(one => one.getClientRects().length > 0)"""


class Page:
    """The browser, with the eyes and hands of a user: texts, labels, buttons."""

    def __init__(self, driver):
        self.driver = driver
        self.base = ""

    def open(self, port, place="#/", prefix="/"):
        self.base = f"http://127.0.0.1:{port}{prefix}"
        self.driver.get("about:blank")
        self.driver.get(self.base + place)

    def go(self, place):
        self.driver.execute_script("location.hash = arguments[0]", place)

    def until(self, what, *args):
        """Waits until what(*args) gives something true, and gives that."""
        end = time.monotonic() + PATIENCE_S
        while True:
            with contextlib.suppress(*PASSES):
                got = what(*args)
                if got:
                    return got
            assert time.monotonic() < end, f"in vain; the page says: {self.text()[:3000]}"
            time.sleep(0.03)

    def find(self, xpath):
        """Elements that can be seen."""
        return self.driver.execute_script(FIND, xpath)

    def text(self):
        return self.script("document.body.innerText")

    def says(self, *words):
        """Waits until the page has all these words."""
        for word in words:
            self.until(lambda: word in self.text())

    def shown(self, words):
        return words in self.text()

    def click(self, text):
        """A button or link with this text; in the dialog, if there is one."""
        inside = "//dialog" if self.find("//dialog") else ""
        path = f"{inside}//*[self::button or self::a][normalize-space()={quoted(text)}]"
        self.until(lambda: [self.press(one) for one in self.find(path)[:1] if one.is_enabled()])

    def click_for(self, text, label):
        """Until there is a field with this label: what was saved before may be drawn anew over it."""
        path = f"//div[label[normalize-space()={quoted(label)}]]"
        self.until(lambda: (self.find(path) or self.click(text), time.sleep(0.2), self.find(path))[2])

    def press(self, one):
        """In the middle of the window: at its edge it may be under the bar, or move while the page is filled."""
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", one)
        one.click()
        return True

    def field(self, label):
        inside = "//dialog" if self.find("//dialog") else ""
        path = f"{inside}//div[label[normalize-space()={quoted(label)}]]/*[self::input or self::textarea or self::select]"
        return self.until(self.find, path)[0]

    def fill(self, label, text):
        def filled():
            one = self.field(label)
            if one.tag_name != "select":
                one.clear()
            one.send_keys(text)
            return True
        self.until(filled)

    def set(self, label, value):
        """For fields that the keyboard fills in in parts, as moments."""
        self.driver.execute_script(
            "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('change'))", self.field(label), value)

    def question(self):
        return self.until(self.find, "//dialog")[0].text

    def answered(self, toast):
        """The question is gone, and the page said this."""
        self.until(lambda: not self.find("//dialog"))
        self.says(toast)

    def rows(self):
        return self.script("[...document.querySelectorAll('tbody tr:not(.nothing)')].map(row => row.innerText)")

    def row(self, word):
        """The row with this text."""
        return self.until(self.find, f"//tbody/tr[contains(., {quoted(word)})]")[0]

    def script(self, text, *args):
        return self.driver.execute_script("return " + text, *args)

    def errors(self, *expected):
        """What the console says since the last time, but for replies with an expected status."""
        return [entry["message"] for entry in self.driver.get_log("browser")
                if entry["level"] == "SEVERE"
                and not any(entry["source"] == "network" and f"status of {status}" in entry["message"] for status in expected)]

    def shot(self, name):
        if SHOTS:
            pathlib.Path(SHOTS).mkdir(parents=True, exist_ok=True)
            self.driver.save_screenshot(str(pathlib.Path(SHOTS) / f"{name}.png"))

    def size(self, width, height, dark=False):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})


def quoted(text):
    return f'"{text}"' if "'" in text else f"'{text}'"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('browser')}"):
        options.add_argument(flag)
    options.binary_location = "/usr/bin/chromium"
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
    driver.set_page_load_timeout(PATIENCE_S)
    yield driver
    driver.quit()


@pytest.fixture
def page(browser):
    made = Page(browser)
    made.size(1280, 900)
    browser.get_log("browser")
    yield made
    with contextlib.suppress(Exception):
        browser.execute_script("sessionStorage.clear()")
    browser.get("about:blank")


@pytest.fixture
def server(tmp_path):
    # A port of its own, since one test starts it again there.
    with Server(tmp_path / "store", "--http", f"127.0.0.1:{free_port()}", "--sync", "never") as made:
        made.web = web_port(made)
        yield made
        made.process.terminate()


@pytest.fixture
def web(server):
    return Web(server.web)
