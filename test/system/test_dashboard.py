"""The dashboard, in a real browser against the real server: each screen with real data, each action
does what it says, nothing that is stored can do anything to the page, and the console stays empty.

Screenshots go to the folder that DASHBOARD_SHOTS names, if it does.
"""
import contextlib
import http.server
import json
import os
import pathlib
import re
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from harness import PATIENCE_S, Server, tarry
from web import Web, talk, web_port, web_server

WEB = pathlib.Path(__file__).parents[2] / "web"
SHOTS = os.environ.get("DASHBOARD_SHOTS")
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--no-first-run", "--disable-quic",
         "--disable-dev-shm-usage", "--hide-scrollbars", "--force-prefers-reduced-motion")


# ---- the browser ----

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
        end = time.monotonic() + PATIENCE_S / 2
        while True:
            with contextlib.suppress(StaleElementReferenceException):
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
        self.until(lambda: [one.click() or True for one in self.find(path)[:1] if one.is_enabled()])

    def field(self, label):
        inside = "//dialog" if self.find("//dialog") else ""
        path = f"{inside}//div[label[normalize-space()={quoted(label)}]]/*[self::input or self::textarea or self::select]"
        return self.until(self.find, path)[0]

    def fill(self, label, text):
        one = self.field(label)
        if one.tag_name == "select":
            one.send_keys(text)
        else:
            one.clear()
            one.send_keys(text)

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
    with web_server(tmp_path / "store", "--sync", "never") as made:
        made.web = web_port(made)
        yield made
        made.process.terminate()


@pytest.fixture
def web(server):
    return Web(server.web)


# ---- the files ----

def test_files_are_served_well(server, web):
    total = 0
    for name in ("", *(f"ui/{path.name}" for path in WEB.iterdir() if path.name != "index.html")):
        answer = web.get("/" + name)
        path = WEB / (name.removeprefix("ui/") or "index.html")
        assert answer.status == 200 and answer.body == path.read_bytes(), name
        kind = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}[path.suffix]
        assert answer.headers["Content-Type"].split(";")[0] == kind
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff" and answer.headers["X-Frame-Options"] == "DENY"
        tag = answer.headers["ETag"]
        for sent in (tag, f'"x", W/{tag}', "*"):
            same = web.ask("GET", "/" + name, headers={"If-None-Match": sent})
            assert (same.status, same.body, same.headers["ETag"]) == (304, b"", tag)
        for sent in ('"x"', tag.strip('"'), ""):
            assert web.ask("GET", "/" + name, headers={"If-None-Match": sent}).status == 200
        head = web.ask("HEAD", "/" + name)
        assert head.status == 200 and int(head.headers["Content-Length"]) == len(answer.body)
        total += len(answer.body)
    assert total < 150 * 1024
    for path in ("/ui/nothing.js", "/ui/index", "/ui/", "/ui/..%2Findex.html", "/dashboard", "/ui/a/b"):
        answer = web.get(path)
        assert answer.status in (400, 404) and answer.json["error"]["code"], path
    assert web.ask("POST", "/").status == web.ask("PUT", "/ui/app.js").status == 405
    twice = talk(server.web, b'GET / HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: "a"\r\nIf-None-Match: "b"\r\n\r\n')[0]
    assert twice.status == 200


def test_files_ask_for_nothing_from_elsewhere():
    for path in WEB.iterdir():
        text = path.read_text()
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text), path
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text), path
        assert not re.search(r"\b(src|href)=\"/", text), path  # relative, for a prefix
    assert "<script>" not in (WEB / "index.html").read_text()


def test_whoami(server, web, tmp_path):
    told = web.get("/v1/whoami").json
    assert told["name"] is None and told["roles"] == ["read", "produce", "consume", "admin"] and told["topics"] == "*"
    assert abs(told["now_ms"] / 1000 - time.time()) < 5 and told["test_clock"] is False


# ---- lists of topics ----

def test_topics_by_page_and_by_most(web):
    for number in range(25):
        web.post("/v1/jobs", json.dumps([{"topic": f"t{number}", "body": "x", "delay": "1h"}] * (number % 7 + 1)))
    web.push("hot-t", b"x")
    web.push("hot-t", b"x", delay="1h")
    every = [topic["name"] for topic in web.get("/v1/topics").json["topics"]]
    seen, cursor = [], None
    while True:
        told = web.get("/v1/topics", limit=7, **({"cursor": cursor} if cursor else {})).json
        assert len(told["topics"]) <= 7
        seen += [topic["name"] for topic in told["topics"]]
        cursor = told["cursor"]
        if cursor is None:
            break
    assert seen == every and len(seen) > 25
    most = web.get("/v1/topics", sort="delayed", limit=5).json
    assert most["matched"] == len(every)
    assert [topic["delayed"] for topic in most["topics"]] == [7, 7, 7, 6, 6]
    assert [topic["name"] for topic in most["topics"]] == ["t6", "t13", "t20", "t5", "t12"]  # the older first
    full = web.get("/v1/topics", sort="delayed").json["topics"]
    counts = [topic["delayed"] for topic in full]
    assert sorted(counts, reverse=True) == counts and {topic["name"] for topic in full} == set(every)
    assert [topic["name"] for topic in web.get("/v1/topics", match="ot-").json["topics"]] == ["hot-t"]
    assert web.get("/v1/topics", sort="oldest", limit=1).json["topics"][0]["name"] == "hot-t"
    assert web.get("/v1/topics", sort="ready", match="t1", limit=2).json["matched"] == 11
    for wrong in ({"sort": "x"}, {"limit": 0}, {"cursor": "x"}, {"cursor": "99999999999"}, {"match": ""},
                  {"sort": "dead", "cursor": "1"}):
        assert web.get("/v1/topics", **wrong).status == 400, wrong


# ---- each screen, with data ----

def stock(web):
    """A bit of everything."""
    def jobs(topic, count, delay, **more):
        return [{"topic": topic, "body": {"order": n}, "delay": f"{delay(n)}s", **more} for n in range(count)]
    web.post("/v1/jobs", json.dumps(
        jobs("orders", 400, lambda n: 60 + n * 9) + jobs("mail", 150, lambda n: 600 + n * 11, tag="newsletter")
        + jobs("sms", 90, lambda n: 1200 + n * 25) + jobs("orders", 40, lambda n: 86400 + n * 3600)
        + jobs("close-order", 120, lambda n: 1800 + n * 3) + jobs("lamps", 30, lambda n: 300 + n * 100)))
    web.push("orders", b'{"order":42,"paid":false}', key="order-42", delay="30m", tag="vip")
    for number in range(5):
        web.push("orders", b"now", key=f"late-{number}")
    web.ask("PUT", "/v1/topics/notify", '{"retries":0,"rate":50,"backoff":"4m,10m"}')
    for number in range(3):
        web.push("notify", b"dead", key=f"dead-{number}")
        job = web.reserve("notify")[0]
        web.post(f"/v1/jobs/{job['id']}/bury", lease=job["lease"])
    web.push("notify", b"held")
    web.reserve("notify")
    web.ask("PUT", "/v1/schedules/report", json.dumps({"topic": "mail", "cron": "30 9 * * MON-FRI", "tz": "Asia/Shanghai", "body": "report"}))
    web.ask("PUT", "/v1/schedules/beat", json.dumps({"topic": "lamps", "every": "10m"}))


def test_screens(page, server, web):
    stock(web)
    page.open(server.web)
    page.says("Overview", "delayed", "831", "oldest ready", "live", "orders", "close-order", "sync never")
    page.until(lambda: page.find("//*[name()='g' and contains(@class,'bar')]//*[name()='rect' and @fill]"))
    page.until(lambda: page.script("document.querySelectorAll('.line').length > 3 && document.querySelector('path.line-0[d*=L]') !== null"))
    page.shot("overview")
    page.go("#/forecast")
    page.says("Forecast", "close-order", "Exact to 1 m", "When will they be through?")
    page.fill("Jobs a second that go out", "0.1" + Keys.TAB)
    page.says("At 0.1/s")
    assert "drain=0.1" in page.script("location.hash")
    page.shot("forecast")
    page.go("#/topics")
    page.says("notify", "lamps", "7 topics.")
    page.fill("Name has", "not")
    page.says("1 topic.")
    assert len(page.rows()) == 1 and "match=not" in page.script("location.hash")
    page.go("#/topics/notify")
    page.says("Policy", "next due", "Take a job")
    assert page.field("Backoff").get_attribute("value") == "4m,10m" and page.field("Rate").get_attribute("value") == "50"
    page.shot("topic")
    page.go("#/jobs?topic=orders&state=delayed")
    page.says("100 on this page", "there are more", "delayed, in orders")
    page.click("Next page")
    page.until(lambda: "cursor=" in page.script("location.hash"))
    page.says("on this page")
    page.shot("jobs")
    page.go("#/jobs")
    page.fill("Topic", "orders")
    page.fill("Id, or key in the topic", "order-42" + Keys.ENTER)
    page.says("due in 29 m", "What happened to it", "pushed", "order-42", '"paid": false')
    page.click("hex")
    page.says("00000000  7b 22 6f 72")
    page.click("text")
    page.says('{"order":42,"paid":false}')
    page.shot("job")
    page.go("#/dead")
    page.says("3 jobs", "were buried", "dead-0")
    page.shot("dead")
    page.go("#/schedules")
    page.says("report", "30 9 * * MON-FRI (Asia/Shanghai)", "every 10m")
    page.click("report")
    page.says("if some were missed", "there ", "09:30:00")
    page.shot("schedules")
    page.go("#/outlets")
    page.says("No topic has an outlet")
    page.go("#/storage")
    page.says("nothing is known to be damaged", "commits", "log files")
    page.shot("storage")
    page.go("#/config")
    page.says("store.sync", "flag", "There are no tokens")
    page.fill("Key or value has", "store.sync")
    page.until(lambda: len(page.rows()) == 1)
    page.go("#/nowhere")
    page.says("There is no such page")
    page.go("#/topics/no-such-topic")
    page.says("there is no such topic")
    page.go("#/jobs/999999")
    page.says("There is no such job")
    assert page.errors(404) == []


def test_dark_and_on_a_phone(page, server, web):
    stock(web)
    for dark in (False, True):
        page.size(390, 844, dark)
        page.open(server.web)
        for place, word in (("#/", "The next hour"), ("#/topics", "close-order"), ("#/jobs?topic=notify", "dead"), ("#/forecast", "When will")):
            page.go(place)
            page.says(word)
            wide = page.script("document.documentElement.scrollWidth - window.innerWidth")
            assert wide <= 0, (place, wide)  # nothing stands out at the side
            page.shot(f"phone-{'dark' if dark else 'light'}-{place.strip('#/').split('?')[0] or 'overview'}")
    page.size(1280, 900, True)
    for place, word in (("#/", "close-order"), ("#/forecast", "close-order")):
        page.go(place)
        page.says(word)
        time.sleep(0.2 if SHOTS else 0)
        page.shot(f"dark-{place.strip('#/') or 'overview'}")
    paper = page.script("getComputedStyle(document.body).backgroundColor")
    assert sum(map(int, re.findall(r"\d+", paper)[:3])) < 150, paper
    assert page.errors() == []


def test_keys(page, server, web):
    stock(web)
    page.open(server.web)
    page.says("close-order")
    body = page.driver.find_element(By.TAG_NAME, "body")
    body.send_keys("gf")
    page.says("When will they be through?", "close-order")
    chart = page.find("//*[name()='svg' and contains(@class,'picks')]")[0]
    page.script("arguments[0].focus()", chart)
    page.until(lambda: page.find("//*[name()='g' and contains(@class,'bar')]"))
    chart.send_keys(*[Keys.ARROW_RIGHT] * 12)
    said = page.find("//p[@class='said']")[0]
    page.until(lambda: re.search(r"to \d\d:\d\d:\d\d: [\d,]+ jobs?", said.text))
    number = int(re.search(r": ([\d,]+) jobs?", said.text)[1].replace(",", ""))
    assert number > 0
    chart.send_keys(Keys.ENTER)
    page.says(f"{number} on this page", "due from")
    assert "due_from=" in page.script("location.hash")
    page.driver.find_element(By.TAG_NAME, "body").send_keys("/")
    page.until(lambda: page.script("document.activeElement.tagName") in ("INPUT", "SELECT"))
    page.script("document.activeElement.blur()")
    page.driver.find_element(By.TAG_NAME, "body").send_keys("p")
    assert "Push a job" in page.question()
    page.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    page.until(lambda: not page.find("//dialog"))
    assert page.errors() == []


# ---- actions ----

def test_actions_on_a_job(page, server, web):
    page.open(server.web)
    page.click("Push …")
    page.fill("Topic", "orders")
    page.fill("Due after", "soon")
    page.fill("Key", "order-1")
    page.fill("Tag", "vip")
    page.fill("Body", '{"order": 1}')
    page.click("Push")
    page.until(lambda: "delay is " in page.question())  # refused, and all is still there
    assert page.field("Due after").get_attribute("aria-invalid") == "true"
    page.fill("Due after", "30m")
    page.click("Push")
    page.answered("Pushed job 1 (order-1), due")
    job = web.get("/v1/topics/orders/keys/order-1").json
    assert (job["state"], job["tag"], job["body"]) == ("delayed", "vip", '{"order": 1}')
    page.go("#/jobs/" + job["id"])
    page.click("Reschedule …")
    page.fill("Due after", "2h")
    page.click("Reschedule")
    page.answered("Due ")
    moved = web.get("/v1/jobs/1").json
    assert 85 * 60_000 < moved["due_ms"] - job["due_ms"] < 95 * 60_000
    page.click("Edit …")
    page.fill("Priority", "7")
    page.fill("Tag", "")
    page.fill("Body", "another")
    page.click("Save")
    page.answered("Changed: priority, tag, body")
    edited = web.get("/v1/jobs/1").json
    assert (edited["priority"], edited["body"], edited.get("tag"), edited["due_ms"]) == (7, "another", None, moved["due_ms"])
    page.click("Fire now …")
    assert "becomes ready at once" in page.question()
    page.click("Back")
    assert web.get("/v1/jobs/1").json["state"] == "delayed"
    page.click("Fire now …")
    page.click("Fire now")
    page.answered("Fired: it is ready")
    page.go("#/topics/orders")
    page.click("Take a job …")
    assert "You have job 1" in page.question() and "another" in page.question()
    assert web.get("/v1/jobs/1").json["state"] == "reserved"
    page.fill("And now", "bury")
    page.click("Do it")
    page.answered("Buried")
    assert web.get("/v1/jobs/1").json["state"] == "dead"
    page.go("#/jobs/1")
    page.says("dead because", "buried")
    page.click("Bring it back …")
    page.click("Bring it back")
    page.answered("It is ready")
    page.go("#/topics/orders")
    page.click("Take a job …")
    page.question()
    page.click("Back")
    page.answered("Given back")
    page.until(lambda: web.get("/v1/jobs/1").json["state"] == "ready")
    page.go("#/jobs/1")
    page.click("Cancel …")
    assert "never handed out again" in page.question()
    page.click("Cancel the job")
    page.answered("Cancelled; it was ready")
    page.says("It is gone", "cancelled")
    assert web.get("/v1/jobs/1").status == 404
    assert page.errors(400, 404) == []


def test_actions_on_many(page, server, web):
    now = web.get("/v1/whoami").json["now_ms"]
    nine = (now // 600_000 + 6) * 600_000
    web.post("/v1/jobs", json.dumps(
        [{"topic": "orders", "body": "in", "at": nine + n * 500} for n in range(1204)]
        + [{"topic": "orders", "body": "after", "at": nine + 602_000}, {"topic": "mail", "body": "other", "at": nine + 1000}]))
    page.open(server.web, f"#/jobs?topic=orders&due_from={nine}&due_to={nine + 600_000}&state=delayed")
    page.says("100 on this page")
    page.click("Shift all that match …")
    assert "1,200 jobs" in page.question() and "in orders" in page.question() and "due from" in page.question()
    page.fill("By", "1d")
    page.click("Shift 1,200 jobs")
    page.answered("Shifted 1,200 jobs")
    page.says("No job matches")
    day = web.post("/v1/jobs/cancel", topic="orders", due_from=nine + 86_400_000, due_to=nine + 87_000_000, dry_run="true").json
    assert day["matched"] == 1200
    page.go(f"#/jobs?topic=orders&due_from={nine + 86_400_000}&due_to={nine + 87_000_000}")
    page.says("there are more")
    page.click("Cancel all that match …")
    assert "Cancels 1,200 jobs: in orders, due from" in page.question()
    page.click("Cancel 1,200 jobs")
    page.answered("Cancelled 1,200 jobs")
    assert web.get("/v1/stats").json["delayed"] == 6  # 4 after 600 s, one after that, and mail
    page.go("#/jobs?state=delayed")
    page.says("Choose a topic, a tag or a time")  # nothing is offered for everything
    assert not page.find("//button[starts-with(., 'Cancel all')]")
    for number in range(12):
        web.push("pay", b"x", key=f"k{number}")
    for job in web.reserve("pay", count=12):
        web.post(f"/v1/jobs/{job['id']}/bury", lease=job["lease"])
    page.go("#/dead")
    page.says("12 jobs", "were buried")
    page.row("k3").find_element(By.TAG_NAME, "button").click()
    page.question()
    page.click("Bring it back")
    page.answered("It is ready")
    page.says("11 jobs")
    page.click("Bring these back …")
    assert "11 jobs on this page that were buried in pay" in page.question()
    page.click("Bring 11 jobs back")
    page.answered("Brought 11 jobs back")
    assert web.get("/v1/topics/pay").json["ready"] == 12
    for job in web.reserve("pay", count=12):
        web.post(f"/v1/jobs/{job['id']}/bury", lease=job["lease"])
    page.go("#/dead?topic=pay")
    page.click("Redrive all dead of pay …")
    page.click("Bring 12 jobs back")
    page.answered("Brought 12 jobs back")
    assert page.errors() == []


def test_actions_on_a_topic(page, server, web):
    for _ in range(3):
        web.push("orders", b"x", delay="1h")
    web.push("orders", b"x")
    page.open(server.web, "#/topics/orders")
    page.says("Policy")
    page.click("Pause …")
    page.fill("What", "neither")
    page.fill("For", "10m")
    page.click("Pause")
    page.answered("orders is paused")
    page.says("Paused: no pushes, no hand-outs until")
    assert web.get("/v1/topics/orders").json["policy"]["paused"]["what"] == "both"
    page.click("Resume …")
    page.click("Resume")
    page.answered("orders goes on")
    assert web.get("/v1/topics/orders").json["policy"]["paused"] == "no"
    page.fill("Time to run", "30s")
    page.fill("Retries", "3")
    page.fill("Rate", "12.5")
    page.fill("Backoff", "nonsense")
    page.click("Save …")
    assert "Time to run: 1m → 30s" in page.question() and "Retries: 16 → 3" in page.question()
    page.click("Change it")
    page.until(lambda: "backoff" in page.question())  # refused: nothing is changed
    assert web.get("/v1/topics/orders").json["policy"]["ttr_ms"] == 60000
    page.click("Back")
    page.fill("Backoff", "1m,5m")
    page.click("Save …")
    page.click("Change it")
    page.answered("The policy of orders is changed")
    policy = web.get("/v1/topics/orders").json["policy"]
    assert (policy["ttr_ms"], policy["retries"], policy["rate"], policy["backoff"]) == (30000, 3, 12.5, "1m,5m")
    page.until(lambda: page.field("Burst").get_attribute("value") == "12")
    page.fill("Rate", "")
    page.fill("Burst", "")
    page.click("Save …")
    page.click("Change it")
    page.answered("The policy of orders is changed")
    assert "rate" not in web.get("/v1/topics/orders").json["policy"]
    page.click("Purge …")
    assert "all 4 jobs of orders: 3 delayed, 1 ready" in page.question()
    button = page.find("//dialog//button[@type='submit']")[0]
    assert not button.is_enabled()
    page.fill("Type orders to go on", "order")
    assert not button.is_enabled()
    page.fill("Type orders to go on", "orders")
    page.click("Delete 4 jobs")
    page.answered("Deleted 4 jobs")
    assert web.get("/v1/topics/orders").json["delayed"] == 0
    page.click("Delete …")
    page.fill("Type orders to go on", "orders")
    page.click("Delete the topic")
    page.answered("Deleted orders")
    page.until(lambda: page.script("location.hash").startswith("#/topics"))
    assert web.get("/v1/topics/orders").status == 404
    assert page.errors(400, 404) == []


def test_schedules(page, server, web):
    page.open(server.web, "#/schedules")
    page.click("New schedule …")
    page.fill("Name", "report")
    page.fill("Topic", "mail")
    page.fill("Expression or duration", "0 25 * * *")
    page.click("Preview")
    page.says("cron has a bad hour")
    page.fill("Expression or duration", "30 9 * * MON-FRI")
    page.fill("Time zone", "Asia/Shanghai")
    page.fill("Body", "good morning")
    page.click("Preview")
    page.says("It would happen", "09:30:00")
    told = page.find("//ol[@class='times']/li")
    assert len(told) == 10
    page.shot("schedule-preview")
    assert web.get("/v1/schedules").json["schedules"] == []  # nothing is made by looking
    page.click("Save …")
    assert "Make the schedule report" in page.question() and "09:30:00" in page.question()
    page.click("Save")
    page.answered("Saved; next")
    made = web.get("/v1/schedules/report").json
    assert (made["cron"], made["tz"], made["body"], made["topic"]) == ("30 9 * * MON-FRI", "Asia/Shanghai", "good morning", "mail")
    page.click("report")
    page.click("Run now …")
    page.click("Run now")
    page.answered("Made job")
    assert web.get("/v1/topics/mail").json["ready"] == 1
    page.click("Pause …")
    page.click("Pause")
    page.answered("report is paused")
    assert web.get("/v1/schedules/report").json["paused"] is True
    page.click("Resume …")
    page.click("Resume")
    page.answered("report goes on; next")
    page.click("Edit …")
    page.fill("Expression or duration", "0 10 * * *")
    page.click("Save …")
    assert "begins anew" in page.question()
    page.click("Save")
    page.answered("Saved")
    assert web.get("/v1/schedules/report").json["cron"] == "0 10 * * *"
    page.click("Delete …")
    page.click("Delete the schedule")
    page.answered("report has ended")
    assert web.get("/v1/schedules/report").status == 404
    page.says("There is no schedule")
    assert page.errors(400, 404) == []


def test_preview_is_what_will_be(web):
    """dry_run of a schedule: the same times as /next when it is made; nothing is stored."""
    for rule in ({"cron": "15 2 * * *", "tz": "Europe/Berlin"}, {"every": "10s", "start": "2099-01-01T00:00:00Z"},
                 {"cron": "@hourly", "end": "2020-01-01T00:00:00Z"}, {"after": "5s", "start": "2099-01-01T00:00:00Z"}):
        told = web.ask("PUT", "/v1/schedules/s", json.dumps({"topic": "t", **rule, "dry_run": True}))
        assert told.status == 200, told
        assert web.get("/v1/schedules/s").status == 404
        web.ask("PUT", "/v1/schedules/s", json.dumps({"topic": "t", **rule, "dry_run": False}))
        assert told.json["next"] == web.get("/v1/schedules/s/next").json["next"], rule
        assert web.ask("DELETE", "/v1/schedules/s").status == 200
    for wrong in ({"cron": "0 25 * * *"}, {"cron": "@daily", "tz": "No/Where"}, {}):
        answer = web.ask("PUT", "/v1/schedules/s", json.dumps({"topic": "t", **wrong, "dry_run": True}))
        assert answer.status == 400, answer


# ---- hostile data ----

MEAN = ["<img src=x onerror='window.evil=1'>", "<script>window.evil=1</script>", "\"><svg onload=window.evil=1>",
        "javascript:window.evil=1", "{{constructor.constructor('window.evil=1')()}}", "</textarea><script>window.evil=1</script>",
        "\u202eevil", "' onclick='window.evil=1", "<style>*{display:none}</style>"]


def test_hostile_data_does_nothing(page, server, web):
    name = "a/..;$_().+-b"
    path = urllib.parse.quote(name, safe="")
    for number, text in enumerate(MEAN):
        web.push(path, text.encode(), key=text, tag=text[:64], delay="1h")
    web.push(path, bytes(range(256)), key="bytes", delay="1h")
    for text in MEAN[:3]:
        web.push(path, text.encode(), key="dead " + text)
        job = web.reserve(path)[0]
        web.post(f"/v1/jobs/{job['id']}/bury", lease=job["lease"])
    web.ask("PUT", "/v1/schedules/" + path, json.dumps({"topic": name, "every": "1h", "body": MEAN[0], "tag": MEAN[0]}))
    page.open(server.web)
    page.says(name)
    places = ["#/topics", f"#/topics/{path}", f"#/jobs?topic={path}", "#/dead", "#/forecast", "#/schedules",
              "#/jobs?tag=" + urllib.parse.quote(MEAN[0]), "#/dead?topic=" + urllib.parse.quote(MEAN[1]),
              "#/topics/" + urllib.parse.quote(MEAN[0], safe=""), "#/" + MEAN[0], "#/jobs/" + urllib.parse.quote(MEAN[2], safe=""),
              "#/forecast?topic=" + urllib.parse.quote(MEAN[1]) + "&drain=" + urllib.parse.quote(MEAN[2])]
    for place in places:
        page.go(place)
        page.until(lambda: page.find("//h1"))
        page.until(lambda: page.script("document.readyState") == "complete")
        time.sleep(0.1)
        safe(page)
    for job in web.get("/v1/jobs", topic=name).json["jobs"]:
        page.go("#/jobs/" + job["id"])
        page.says("What happened to it")
        if job.get("key") in MEAN:
            assert page.find("//pre")[0].text.strip() == MEAN[MEAN.index(job["key"])].strip()
        safe(page)
    page.click("Push one like it …")
    page.question()
    safe(page)
    page.click("Back")
    page.go("#/schedules")
    page.click(name)
    page.click("Edit …")
    page.field("Body")
    safe(page)
    assert page.errors(400, 404) == []


def safe(page):
    assert page.script("window.evil") is None
    assert page.script("document.querySelectorAll('img:not([src=\"ui/icon.svg\"]), script:not([src=\"ui/app.js\"]), style, iframe').length") == 0
    assert page.script("[...document.querySelectorAll('a')].every(a => a.getAttribute('href').startsWith('#'))")


# ---- tokens ----

@pytest.fixture
def guarded(tmp_path):
    """(server, {role: token})"""
    lines, tokens = [], {}
    for name, role, topics in (("ops", "admin", "*"), ("looker", "read", "*"), ("eu", "read+produce", "eu-*"), ("mute", "produce", "*")):
        said = tarry("token", "new", "--role", role, "--topics", topics, "--name", name).stdout
        tokens[name] = re.search(r"tarry_\w+", said)[0]
        lines += ["--set", "tokens." + re.search(rf"{name} = .*", said)[0].replace(" = ", "=", 1)]
    with web_server(tmp_path / "store", "--sync", "never", *lines) as server:
        server.web = web_port(server)
        yield server, tokens
        server.process.terminate()


def ask(port, token, method, path, body=None):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data=body, method=method,
                                     headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
        return json.loads(reply.read())


def test_tokens(page, guarded):
    server, tokens = guarded
    ask(server.web, tokens["ops"], "POST", "/v1/topics/eu-orders/jobs?delay=1h", b"x")
    ask(server.web, tokens["ops"], "POST", "/v1/topics/us-orders/jobs?delay=1h", b"x")
    page.open(server.web, "#/topics")
    page.says("This server has tokens")
    page.shot("sign-in")
    box = page.driver.find_element(By.ID, "token")
    box.send_keys("tarry_wrong" + Keys.ENTER)
    page.says("the token is not known here")
    page.driver.find_element(By.ID, "token").send_keys(tokens["mute"] + Keys.ENTER)
    page.says("role read")
    page.driver.find_element(By.ID, "token").send_keys(tokens["looker"] + Keys.ENTER)
    page.says("us-orders", "signed in as looker (read; topics *)", "may look, and change nothing")
    assert not page.shown("Push …")
    for place, word in (("#/topics/eu-orders", "Policy"), ("#/jobs?topic=eu-orders", "on this page"), ("#/jobs/1", "What happened"),
                        ("#/schedules", "There is no schedule"), ("#/dead?topic=eu-orders", "No job is dead")):
        page.go(place)
        page.says(word)
        assert not page.find("//button[contains(., '…')]"), place
    page.go("#/topics/eu-orders")
    assert not page.field("Retries").is_enabled()
    page.driver.refresh()  # the token stays with the tab
    page.says("signed in as looker")
    assert page.script("document.cookie") == "" and page.script("localStorage.length") == 0
    page.click("sign out")
    page.says("This server has tokens")
    page.driver.find_element(By.ID, "token").send_keys(tokens["eu"] + Keys.ENTER)
    page.says("signed in as eu (read + produce; topics eu-*)")
    page.go("#/")
    page.says("eu-orders", "in your topics")
    assert not page.shown("us-orders")
    page.go("#/storage")
    page.says("your token is not for all of them")
    page.go("#/jobs?topic=eu-orders")
    page.says("Cancel all that match")
    assert not page.shown("Redrive")
    page.click("sign out")
    page.says("This server has tokens")
    page.driver.find_element(By.ID, "token").send_keys(tokens["ops"] + Keys.ENTER)
    page.says("signed in as ops (admin; topics *)")
    page.go("#/config")
    page.says("looker", "eu-*")
    assert tokens["ops"] not in page.driver.page_source
    assert page.errors(401, 403) == []


# ---- the rest of the house ----

class Proxy(http.server.BaseHTTPRequestHandler):
    """Everything below /tools/tarry/ goes to the server, as a reverse proxy does it."""
    protocol_version = "HTTP/1.1"
    target = 0

    def handle_any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not self.path.startswith("/tools/tarry/"):
            self.send_error(404)
            return
        request = urllib.request.Request(f"http://127.0.0.1:{self.target}" + self.path.removeprefix("/tools/tarry"),
                                         data=body or None, method=self.command,
                                         headers={k: v for k, v in self.headers.items() if k.lower() != "connection"})
        try:
            reply = urllib.request.urlopen(request, timeout=PATIENCE_S)
        except urllib.error.HTTPError as error:
            reply = error
        data = reply.read()
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            if name.lower() not in ("content-length", "connection", "date"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = do_HEAD = handle_any

    def log_message(self, *_):
        pass


def test_under_a_prefix(page, server, web):
    web.push("orders", b"x", delay="1h")
    proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("To", (Proxy,), {"target": server.web}))
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    try:
        page.open(proxy.server_port, "#/jobs/1", "/tools/tarry/")
        page.says("due in 59 m")
        page.click("Cancel …")
        page.click("Cancel the job")
        page.answered("Cancelled; it was delayed")
        page.go("#/forecast")
        page.says("When will they be through?")
        assert page.errors(404) == []
    finally:
        page.driver.get("about:blank")
        proxy.shutdown()
        proxy.server_close()


def test_quiet_when_hidden_or_stopped_and_back_after_an_outage(page, server, web, tmp_path):
    def requests():
        return web.get("/v1/stats").json["http_requests"]

    def rate():
        """Requests besides our own two in a while."""
        before = requests()
        time.sleep(2.5)
        return requests() - before - 1

    page.open(server.web)
    page.says("live")
    page.until(lambda: page.shown("sync never"))
    assert rate() > 0
    page.script("Object.defineProperty(document, 'hidden', {configurable: true, get: () => true}), document.dispatchEvent(new Event('visibilitychange'))")
    time.sleep(0.5)
    assert rate() == 0
    page.script("delete document.hidden, document.dispatchEvent(new Event('visibilitychange'))")
    web.push("later", b"x", delay="1h")
    page.says("later")
    page.find("//button[contains(@class,'live')]")[0].click()
    page.says("stopped")
    time.sleep(0.5)
    assert rate() == 0
    page.find("//button[contains(@class,'live')]")[0].click()
    page.says("● live")
    assert page.errors() == []
    assert server.stop() == 0
    page.says("no answer")
    with Server(tmp_path / "store", "--sync", "never", "--http", f"127.0.0.1:{server.web}") as again:
        again.ready()
        page.says("● live")
        again.process.terminate()


def test_the_test_clock(page, tmp_path):
    with web_server(tmp_path / "store", "--test-clock", "--set", "clock.start=2027-01-01T00:00:00Z") as server:
        web = Web(web_port(server))
        web.push("orders", b"x", delay="1h")
        page.open(web.port, "#/jobs/1")
        page.says("time stands still at 2027-01-01", "due in 1 h")
        page.click("Advance …")
        page.fill("By", "59m")
        page.click("Advance")
        page.answered("It is 2027-01-01")
        page.says("due in 1 m")
        assert page.errors() == []
        server.process.terminate()


def test_ten_thousand_topics(page, server, web):
    """Pages and aggregates only: no reply is large, and the page is there quickly."""
    for part in range(0, 10_000, 2500):
        answer = web.post("/v1/jobs", json.dumps([{"topic": f"shop-{n}", "body": "x", "delay": "30m"} for n in range(part, part + 2500)]))
        assert answer.status == 200
    web.push("shop-77", b"x", delay="30m")
    page.open(server.web, "#/topics")
    page.says("100 of 10,001 topics", "shop-77")
    assert "shop-77" in page.rows()[0]
    page.fill("Name has", "shop-9999")
    page.says("1 topic.")
    page.go("#/")
    page.says("10 k")
    page.go("#/forecast")
    page.says("others")
    sizes = page.script("performance.getEntriesByType('resource').filter(e => e.name.includes('/v1/')).map(e => [e.name, e.encodedBodySize, e.duration])")
    assert max(size for _, size, _ in sizes) < 100_000, max(sizes, key=lambda one: one[1])
    assert page.errors() == []
