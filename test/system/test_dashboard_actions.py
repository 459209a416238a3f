"""What can be done in the dashboard, in a real browser against the real server: each action asks first,
and does what it says."""
import json
import time

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from dashboard_page import browser, page, server, web  # noqa: F401


# ---- actions ----

def test_a_job_that_is_pushed_edited_and_fired(page, server, web):
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
    assert web.get("/v1/jobs/1").json["state"] == "ready"
    assert page.errors(400) == []


def test_a_job_that_is_taken_buried_and_cancelled(page, server, web):
    web.push("orders", b"another")
    page.open(server.web, "#/topics/orders")
    page.click("Take a job …")
    assert "counts as an attempt" in page.question()
    assert web.get("/v1/jobs/1").json["state"] == "ready"
    page.click("Take it")
    page.until(lambda: "You have job 1" in page.question())
    assert "another" in page.question()
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
    page.click("Bury …")
    assert "nobody gets it until it is brought back" in page.question()
    page.click("Bury it")
    page.answered("Buried: it is dead")
    assert web.get("/v1/jobs/1").json["state"] == "dead"
    page.click("Bring it back …")
    page.click("Bring it back")
    page.answered("It is ready")
    page.go("#/topics/orders")
    page.click("Take a job …")
    assert "counts as an attempt" in page.question()
    assert web.get("/v1/jobs/1").json["state"] == "ready"
    page.click("Take it")
    page.until(lambda: "You have job 1" in page.question())
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
    assert page.errors(404) == []


def test_the_last_attempt_is_told(page, server, web):
    job = web.push("orders", b"once", retries=0)["id"]
    page.open(server.web, "#/topics/orders")
    page.click("Take a job …")
    page.question()
    page.click("Back")
    page.until(lambda: not page.find("//dialog"))
    assert web.get("/v1/jobs/" + job).json["attempts"] == 0  # nothing happens before the question
    page.click("Take a job …")
    page.click("Take it")
    page.until(lambda: "last attempt" in page.question())
    page.click("Do it")
    page.answered("it is dead: that was its last attempt")
    assert web.get("/v1/jobs/" + job).json["state"] == "dead"
    page.click("Take a job …")
    page.click("Take it")
    page.answered("No job of orders is ready")
    assert page.errors() == []


def test_one_like_it(page, server, web):
    """The same bytes, and all else that was fixed by its push, whatever the policy says by now."""
    for body, own in ((bytes(range(256)), {"ttr": "7m", "retries": 3, "backoff": "4m,10m", "ttl": "1h", "priority": 9, "tag": " t"}),
                      (b"a\r\nb", {})):
        job = web.get("/v1/jobs/" + web.push("orders", body, delay="1h", **own)["id"]).json
        web.ask("PATCH", "/v1/topics/orders", json.dumps({"ttr": f"{len(body)}m"}))
        page.go("#/jobs/" + job["id"]) if page.base else page.open(server.web, "#/jobs/" + job["id"])
        page.says("Job " + job["id"])
        page.click("Push one like it …")
        page.question()
        page.click("Push")
        page.answered("Pushed job")
        like = web.get(f"/v1/jobs/{int(job['id']) + 1}").json
        names = ("body", "body_base64", "ttr_ms", "retries", "backoff", "ttl_ms", "priority", "tag")
        assert [like.get(name) for name in names] == [job.get(name) for name in names]
    assert page.errors() == []


def bury(web, topic):
    job = web.reserve(topic)[0]
    web.post(f"/v1/jobs/{job['id']}/bury", lease=job["lease"])


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
    bury(web, "pay")  # another one, and one less: as many, but not the same
    web.post("/v1/topics/pay/keys/k5/kick")
    page.script("document.dispatchEvent(new Event('visibilitychange'))")  # it looks at once
    page.until(lambda: page.find("//tbody/tr[contains(., 'k3')]") and not page.find("//tbody/tr[contains(., 'k5')]"))
    page.click("Bring these back …")
    assert "11 jobs on this page that were buried in pay" in page.question()
    page.click("Bring 11 jobs back")
    page.answered("Brought back 11 jobs")
    assert not page.shown("had changed meanwhile")
    assert web.get("/v1/topics/pay").json["ready"] == 12
    for job in web.reserve("pay", count=12):
        web.post(f"/v1/jobs/{job['id']}/bury", lease=job["lease"])
    page.go("#/dead?topic=pay")
    page.click("Bring all dead of pay back …")
    page.click("Bring 12 jobs back")
    page.answered("Brought back 12 jobs")
    assert page.errors() == []


def test_dead_jobs_of_many_pages_in_groups(page, server, web):
    rows = "".join(json.dumps({"topic": f"t{n % 2}", "body": "x", "ttl": "1ms" if n % 3 else "1d"}) + "\n" for n in range(2400))
    assert web.post("/v1/jobs", rows, headers={"Content-Type": "application/x-ndjson"}).status == 200
    page.until(lambda: web.get("/v1/stats").json["dead"] == 1600)
    for topic in ("t0", "t1"):
        for job in web.reserve(topic, count=400, ttr="1h"):
            web.post(f"/v1/jobs/{job['id']}/bury", lease=job["lease"])
    page.open(server.web)
    page.go("#/dead")
    page.says("1,000 jobs on this page", "there are more")
    page.click("Group them all")
    page.says("All 2,400 jobs are grouped")
    shown = [node.text for node in page.find("//div[@class='group']")]
    assert sorted(text.split("\n")[0] for text in shown) == ["400 jobs", "400 jobs", "800 jobs", "800 jobs"], shown
    page.find("//div[@class='group'][contains(., 'buried') and contains(., 't0')]//button")[0].click()
    assert "400 jobs counted here that were buried in t0" in page.question()
    page.click("Bring 400 jobs back")
    page.answered("Brought back 400 jobs")
    assert web.get("/v1/topics/t0").json["ready"] == 400
    assert page.errors() == []


def test_counts_are_of_what_will_be_done(page, server, web):
    """Dead and reserved jobs match a filter, and most changes leave them alone."""
    for _ in range(5):
        web.push("pay", b"x")
        bury(web, "pay")
    web.push("pay", b"x")
    web.reserve("pay")
    web.push("pay", b"x", delay="1h")
    page.open(server.web, "#/jobs?topic=pay")
    page.click("Shift all that match …")
    assert "Moves the due times of 1 job: in pay" in page.question()
    page.click("Shift 1 job")
    page.answered("Shifted 1 job")
    page.click("Cancel all that match …")
    assert "Cancels 6 jobs: in pay" in page.question()
    page.click("Cancel 6 jobs")
    page.answered("Cancelled 6 jobs")
    page.click("Shift all that match …")
    page.says("No job matches that could be shifted")
    assert web.get("/v1/topics/pay").json["reserved"] == 1
    assert page.errors() == []


# A server that is never through: each call does so many, and there are more.
ENDLESS = """(window.calls = 0, window.does = arguments[0], window.real ??= window.fetch, window.fetch = async (url, options) => {
    if (options?.method !== 'POST' || url.searchParams.has('dry_run')) return window.real(url, options);
    window.calls++;
    await new Promise(done => setTimeout(done, 30));
    return new Response(JSON.stringify({matched: 9, done: window.does, more: true}));
}, 0)"""


def test_a_long_change_can_be_stopped(page, server, web):
    web.push("pay", b"x", delay="1h")
    page.open(server.web, "#/jobs?topic=pay")
    page.click("Cancel all that match …")
    page.question()
    page.script(ENDLESS, 2)
    page.click("Cancel 1 job")
    page.until(lambda: page.script("window.calls") > 3)
    page.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    page.answered("Stopped: cancelled ")
    calls = page.script("window.calls")
    time.sleep(0.2)
    assert page.script("window.calls") == calls  # it has really stopped
    page.click("Cancel all that match …")
    page.question()
    page.script(ENDLESS, 0)
    page.click("Cancel 1 job")
    page.answered("Cancelled 0 jobs; the others cannot be changed now")
    assert page.script("window.calls") == 1
    assert page.errors() == []


def test_actions_on_a_topic(page, server, web):
    for _ in range(3):
        web.push("orders", b"x", delay="1h")
    web.push("orders", b"x", ttr="40s")
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
    assert "Rate: at once" in page.question()
    assert "Time to run, Retries, Backoff: for jobs that are pushed from now on" in page.question()
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
    web.push("orders", b"x")
    ttr = [web.get("/v1/jobs/" + job["id"]).json["ttr_ms"] for job in web.get("/v1/jobs", topic="orders").json["jobs"]]
    assert sorted(ttr) == [30000, 40000, 60000, 60000, 60000]  # as the question said
    page.fill("Rate", "")
    page.fill("Burst", "")
    page.fill("Jitter", "1s")
    page.click("Save …")
    assert "Jitter: for jobs that are pushed from now on" in page.question()
    page.click("Change it")
    page.answered("The policy of orders is changed")
    assert "rate" not in web.get("/v1/topics/orders").json["policy"]
    page.click("Purge …")
    assert "all 5 jobs of orders: 3 delayed, 2 ready" in page.question()
    button = page.find("//dialog//button[@type='submit']")[0]
    assert not button.is_enabled()
    page.fill("Type orders to go on", "order")
    assert not button.is_enabled()
    page.fill("Type orders to go on", "orders")
    page.click("Delete 5 jobs")
    page.answered("Deleted 5 jobs")
    assert web.get("/v1/topics/orders").json["delayed"] == 0
    page.click("Delete …")
    page.fill("Type orders to go on", "orders")
    page.click("Delete the topic")
    page.answered("Deleted orders")
    page.until(lambda: page.script("location.hash").startswith("#/topics"))
    assert web.get("/v1/topics/orders").status == 404
    assert page.errors(400, 404) == []


def test_what_nobody_touched_stays(page, server, web):
    """Browsers rewrite what stands in a field, and a number that is none is not null."""
    body = b'{"order": 1}\r\na\rb\n'
    job = web.push("orders", body, delay="1h", tag=" x", priority=7)["id"]
    page.open(server.web, "#/jobs/" + job)
    page.click("Edit …")
    page.fill("Time to run", "2m")
    page.click("Save")
    page.answered("Changed: ttr")
    edited = web.get("/v1/jobs/" + job).json
    assert (edited["body"].encode(), edited["tag"], edited["ttr_ms"]) == (body, " x", 120_000)
    page.click("Edit …")
    page.fill("Priority", "")
    page.click("Save")
    page.until(lambda: "priority has the wrong type" in page.question())  # refused, not 0: the most urgent
    page.click("Back")
    page.click("Reschedule …")
    page.click("Reschedule")
    page.answered("Nothing was changed")
    kept = web.get("/v1/jobs/" + job).json
    assert (kept["priority"], kept["due_ms"]) == (7, edited["due_ms"])
    web.ask("PUT", "/v1/schedules/lines", json.dumps({"topic": "mail", "every": "1h", "body": "a\r\nb", "start": 4_000_000_000_123}))
    page.go("#/schedules")
    page.click("lines")
    page.click("Edit …")
    page.fill("Expression or duration", "2h")
    page.click("Save …")
    page.click("Save")
    page.answered("Saved")
    made = web.get("/v1/schedules/lines").json
    assert (made["every"], made["body"], made["start_ms"]) == ("2h", "a\r\nb", 4_000_000_000_123)
    web.ask("PUT", "/v1/topics/orders", '{"rate":5,"max_jobs":10}')
    page.go("#/topics/orders")
    for wrong in ("1,000", "10k", "1e999"):
        page.until(lambda: page.field("Rate").get_attribute("value") == "5")
        page.fill("Rate", wrong)
        page.click("Save …")
        page.click("Change it")
        page.until(lambda: "rate has the wrong type" in page.question())
        page.click("Back")
        page.fill("Rate", "5")
    page.click("Save …")
    page.says("Nothing was changed")
    policy = web.get("/v1/topics/orders").json["policy"]
    assert (policy["rate"], policy["max_jobs"]) == (5, 10)
    assert page.errors(400) == []


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
    page.click_for("New schedule …", "Name")
    page.fill("Name", "report")
    page.fill("Topic", "other")
    page.click("Save …")
    assert "Replace the schedule report" in page.question() and "0 10 * * * (Asia/Shanghai), in mail" in page.question()
    page.click("Back")
    page.click("Close")
    assert web.get("/v1/schedules/report").json["topic"] == "mail"
    page.click("report")
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
