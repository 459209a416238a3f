"""The dashboard, in a real browser against the real server: each screen with real data, nothing
that is stored can do anything to the page, and the console stays empty. test_dashboard_actions.py
has what can be done on it.

Screenshots go to the folder that DASHBOARD_SHOTS names, if it does.
"""
import http.server
import json
import re
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from dashboard_page import SHOTS, WEB, browser, page, server, web  # noqa: F401
from harness import PATIENCE_S, Server, tarry
from ports import free_port
from test_outlets import PRIVATE, Receiver
from web import Web, talk, web_port, web_server


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
    assert abs(told["now_ms"] / 1000 - time.time()) < 60 and told["test_clock"] is False


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
    for number in (3, 8):
        assert web.ask("PUT", f"/v1/topics/out-{number}", '{"deliver":{"type":"webhook","url":"https://shop.example/x"}}').status == 200
    names = lambda **query: [t["name"] for t in web.get("/v1/topics", **query).json["topics"]]
    assert names(outlet="true") == ["out-3", "out-8"] == names(outlet="true", sort="ready")
    first = web.get("/v1/topics", outlet="true", limit=1).json
    assert [t["name"] for t in first["topics"]] == ["out-3"]
    assert names(outlet="true", limit=1, cursor=first["cursor"]) == ["out-8"]
    assert names(outlet="true", match="8") == ["out-8"] and len(names(outlet="false")) == len(names())


# ---- each screen, with data ----

def stock(web):
    """A bit of everything."""
    def jobs(topic, count, delay, **more):
        return [{"topic": topic, "body": {"order": n}, "delay": f"{delay(n)}s", **more} for n in range(count)]
    web.post("/v1/jobs", json.dumps(
        jobs("orders", 400, lambda n: 300 + n * 9) + jobs("mail", 150, lambda n: 600 + n * 11, tag="newsletter")
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
    web.reserve("notify", ttr="1h")
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
    page.fill("Jobs handed out per second", "0.1" + Keys.TAB)
    page.says("At 0.1/s")
    assert "drain=0.1" in page.script("location.hash")
    page.shot("forecast")
    page.go("#/topics")
    page.says("notify", "lamps", "6 topics.")
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
    exact = b'{"n":12345678901234567890,"x":1.0,"x":[],"s":"a\\"{,:","l":[1,{}]}'
    page.go("#/jobs/" + web.push("mail", exact, delay="1h")["id"])
    page.says('{\n  "n": 12345678901234567890,\n  "x": 1.0,\n  "x": [],\n  "s": "a\\"{,:",\n  "l": [\n    1,\n    {}\n  ]\n}')
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
    for place in ("#/nowhere", "#/constructor", "#/__proto__"):
        page.go(place)
        page.says("There is no such page")
        page.go("#/forecast?range=constructor")
        page.says("When will they be through?")
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


def test_outlets(page, tmp_path):
    """One that works and one that nobody answers; what is hidden is not written back."""
    mean = "<img src=x onerror=window.evil=1>"
    with Receiver(lambda post: (200, {}, mean.encode())) as hook, \
            web_server(tmp_path / "store", "--test-clock", *PRIVATE) as server:
        web = Web(web_port(server))
        port = free_port()
        for topic, more in (("gone", {"url": f"http://127.0.0.1:{port}/a?key=s3cret", "concurrency": 1}),
                            ("live", {"url": hook.url("/b"), "success": mean, "secret": "k3y", "headers": {"X-A": "hidd3n"}})):
            assert web.ask("PUT", "/v1/topics/" + topic, json.dumps({"backoff": "10ms", "deliver": {"type": "webhook", **more}})).status == 200
        for _ in range(4):
            web.push("gone", b"x")
        web.push("live", b"x")
        web.post("/v1/clock/advance", by="500ms")  # five failures: it is left alone
        hook.wait(1)
        page.open(web.port, "#/outlets")
        page.says("gone", "live", "closed (fine)")
        page.until(lambda: "▲ open, tried again in" in page.row("gone").text)
        cells = page.script("[...arguments[0].cells].map(cell => cell.innerText)", page.row("gone"))
        assert cells[1:3] == ["webhook", f"http://127.0.0.1:{port}/a?key=***"] and cells[4:6] == ["0", "5"], cells
        assert "connect" in cells[-1], cells
        cells = page.script("[...arguments[0].cells].map(cell => cell.innerText)", page.row("live"))
        assert cells[4:6] == ["1", "0"] and cells[-1] == "none", cells
        page.shot("outlets")
        page.go("#/topics/live")
        page.says("Outlet", "secret count", mean)
        safe(page)
        page.fill("Deliver to", json.dumps({"type": "webhook", "url": hook.url("/c")}))
        page.click("Save …")
        assert "secrets or headers, which are not shown: they are gone unless" in page.question()
        page.click("Back")
        page.go("#/topics/gone")
        page.says("open left")
        page.until(lambda: "key=***" in page.field("Deliver to").get_attribute("value"))
        page.fill("Deliver to", page.field("Deliver to").get_attribute("value").replace("10s", "5s"))
        page.click("Save …")
        page.click("Change it")
        page.until(lambda: "where something is hidden" in page.question())
        page.click("Back")
        assert web.get("/v1/topics/gone").json["policy"]["deliver"]["timeout_ms"] == 10_000
        page.fill("Deliver to", "")
        page.click("Save …")
        page.click("Change it")
        page.answered("The policy of gone is changed")
        page.go("#/outlets")
        page.until(lambda: len(page.rows()) == 1)
        assert not any(word in page.driver.page_source for word in ("s3cret", "k3y", "hidd3n"))
        assert page.errors() == []
        server.process.terminate()


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
    assert not page.shown("us-orders") and not page.shown("The next hour")  # of which it may know nothing
    page.go("#/storage")
    page.says("your token is not for all of them")
    page.go("#/jobs?topic=eu-orders")
    page.says("Cancel all that match")
    assert not page.shown("Bring the dead that match back")
    page.click("sign out")
    page.says("This server has tokens")
    page.driver.find_element(By.ID, "token").send_keys(tokens["ops"] + Keys.ENTER)
    page.says("signed in as ops (admin; topics *)")
    page.go("#/config")
    page.says("looker", "eu-*")
    assert tokens["ops"] not in page.driver.page_source
    assert page.errors(401, 403) == []


def test_a_token_that_comes_too_often_is_kept(page, tmp_path):
    said = tarry("token", "new", "--role", "admin", "--topics", "*", "--name", "ops").stdout
    token = re.search(r"tarry_\w+", said)[0]
    line = "tokens." + re.search(r"ops = .*", said)[0].replace(" = ", "=", 1)
    with web_server(tmp_path / "store", "--sync", "never", "--set", line) as server:
        port = web_port(server)
        page.open(port, "#/topics")
        page.says("This server has tokens")
        page.script("(window.real = window.fetch, window.fetch = async () => new Response("
                    "JSON.stringify({error: {code: 'rate_limited', message: 'try again later'}}), {status: 429}), 0)")
        page.driver.find_element(By.ID, "token").send_keys(token + Keys.ENTER)
        page.says("Not now", "try again later")
        page.script("(window.fetch = window.real, 0)")
        page.click("Try again")
        page.says("signed in as ops")
        # It is taken away while several requests are under way: one message, one form.
        page.script("sessionStorage.setItem('tarry.token', 'tarry_other')")
        page.go("#/")
        page.says("This server has tokens")
        time.sleep(0.3)
        assert len(page.find("//form[@class='sign-in']")) == 1 and len(page.find("//p[contains(@class,'toast')]")) == 1
        assert page.errors(401) == []
        server.process.terminate()


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
    page.until(lambda: rate() > 0)
    page.script("Object.defineProperty(document, 'hidden', {configurable: true, get: () => true}), document.dispatchEvent(new Event('visibilitychange'))")
    page.until(lambda: rate() == 0)  # what was under way comes first
    page.script("delete document.hidden, document.dispatchEvent(new Event('visibilitychange'))")
    web.push("later", b"x", delay="1h")
    page.says("later")
    page.find("//button[contains(@class,'live')]")[0].click()
    page.says("stopped")
    page.until(lambda: rate() == 0)  # what was under way comes first
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
    web.push("one-more", b"x", delay="30m")
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
