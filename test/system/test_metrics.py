"""/metrics: every name, right numbers, many topics, never backwards; health; what it costs."""
import itertools
import json
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest
import yaml

from client import Client
from harness import PATIENCE_S, TARRY, tarry
from on_redis import Redis
from prom import Page
from web import Web, raw, read_answer, web_port, web_server

ROOT = pathlib.Path(__file__).resolve().parents[2]
OTHER = "_other"

NAMES = {  # of the contract
    "tarry_jobs": "gauge",
    **{f"tarry_jobs_{what}_total": "counter" for what in (
        "pushed", "fired", "handed", "acked", "retried", "dead", "cancelled", "expired")},
    "tarry_job_lateness_seconds": "histogram",
    "tarry_job_wait_seconds": "histogram",
    "tarry_topic_oldest_ready_seconds": "gauge",
    "tarry_topic_next_due_timestamp_seconds": "gauge",
    "tarry_due_jobs": "gauge",
    "tarry_outlet_attempts_total": "counter",
    "tarry_commit_seconds": "histogram",
    "tarry_commit_batch_jobs": "histogram",
    "tarry_loader_lag_seconds": "gauge",
    "tarry_loop_stalls_total": "counter",
    "tarry_clock_steps_total": "counter",
    "tarry_storage_live_bytes": "gauge",
    "tarry_storage_disk_bytes": "gauge",
    "tarry_connections": "gauge",
    "tarry_commands_total": "counter",
    "process_resident_memory_bytes": "gauge",
    "process_cpu_seconds_total": "counter",
    "process_start_time_seconds": "gauge",
    "tarry_build_info": "gauge",
}


@pytest.fixture(name="server")
def fixture_server(tmp_path):
    with web_server(tmp_path / "store", "--sync", "never") as server:
        server.web = web_port(server)
        yield server
        assert server.stop() == 0


@pytest.fixture(name="web")
def fixture_web(server):
    web = Web(server.web)
    yield web
    web.close()


@pytest.fixture(name="still")
def fixture_still(tmp_path):
    """A server whose clock stands still."""
    with web_server(tmp_path / "store", "--test-clock", "--sync", "never") as server:
        web = Web(web_port(server))
        yield web
        web.close()
        assert server.stop() == 0


def page_of(web):
    answer = web.get("/metrics")
    assert answer.status == 200, answer
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    return Page(answer.body.decode())


def counts(page, topic):
    return {what: int(page.get(f"tarry_jobs_{what}_total", topic=topic))
            for what in ("pushed", "fired", "handed", "acked", "retried", "dead", "cancelled",
                         "expired", "dropped")}


def advance(web, by):
    assert web.post("/v1/clock/advance", by=by).status == 200


def test_every_name(web):
    page = page_of(web)
    assert {name: page.types.get(name) for name in NAMES} == NAMES
    assert {dict(labels)["within"] for labels in page.all("tarry_due_jobs")} == {
        "1m", "10m", "1h", "1d"}
    assert {dict(labels)["port"] for labels in page.all("tarry_connections")} == {
        "beanstalk", "http"}
    assert {dict(labels)["state"] for labels in page.all("tarry_jobs")} == {
        "delayed", "ready", "reserved", "dead"}
    assert all(name.startswith(("tarry_", "process_")) for name in page.types)
    for name, kind in page.types.items():  # base units, as the rules of Prometheus want it
        assert not re.search(r"_(ms|us|milliseconds|kib|mib|percent)(_|$)", name), name
        assert kind != "histogram" or name.endswith(("_seconds", "_jobs")), name


def test_what_happens_is_counted(still):
    still.push("t", b"1")
    late = still.push("t", b"2", delay="10s")
    gone = still.push("t", b"3", delay="1h")
    assert counts(page_of(still), "t") == {"pushed": 3, "fired": 0, "handed": 0, "acked": 0,
                                           "retried": 0, "dead": 0, "cancelled": 0, "expired": 0,
                                           "dropped": 0}
    advance(still, "10s")
    still.ask("DELETE", f"/v1/jobs/{gone['id']}")
    page = page_of(still)
    assert counts(page, "t")["fired"] == 1 and counts(page, "t")["cancelled"] == 1
    assert page.get("tarry_jobs", topic="t", state="ready") == 2
    first, second = still.reserve("t", count=2)
    assert second["id"] == late["id"]
    still.post(f"/v1/jobs/{first['id']}/ack", lease=first["lease"])
    still.post(f"/v1/jobs/{second['id']}/release", lease=second["lease"])
    page = page_of(still)
    assert counts(page, "t") == {"pushed": 3, "fired": 1, "handed": 2, "acked": 1, "retried": 1,
                                 "dead": 0, "cancelled": 1, "expired": 0, "dropped": 0}
    advance(still, "10s")  # its backoff
    again = still.reserve("t")[0]
    still.post(f"/v1/jobs/{again['id']}/bury", lease=again["lease"])
    still.push("t", b"4", ttl="5s")
    advance(still, "6s")
    page = page_of(still)
    assert counts(page, "t") == {"pushed": 4, "fired": 2, "handed": 3, "acked": 1, "retried": 1,
                                 "dead": 2, "cancelled": 1, "expired": 1, "dropped": 0}
    assert page.get("tarry_jobs", topic="t", state="dead") == 2
    held = still.push("t", b"5") and still.reserve("t", ttr="30s")[0]
    advance(still, "31s")  # the lease runs out
    page = page_of(still)
    assert counts(page, "t")["retried"] == 2 and held["id"]
    assert page.get("tarry_lease_timeouts_total") == 1
    assert still.post("/v1/topics/t/purge").json["purged"] == 3
    assert counts(page_of(still), "t")["cancelled"] == 4


def test_lateness_and_wait(still):
    """Lateness by the test clock is none; a wait is as long as somebody lets the job lie."""
    for _ in range(3):
        still.push("t", b"x", delay="1m")
    advance(still, "1m")
    page = page_of(still)
    assert page.get("tarry_job_lateness_seconds_count", topic="t") == 3
    assert page.get("tarry_job_lateness_seconds_bucket", topic="t", le="0.0001") == 3
    advance(still, "30s")
    assert page_of(still).get("tarry_topic_oldest_ready_seconds", topic="t") == 30
    still.reserve("t")
    advance(still, "9m30s")
    still.reserve("t", count=2)
    page = page_of(still)
    assert page.get("tarry_job_wait_seconds_count", topic="t") == 3
    assert page.get("tarry_job_wait_seconds_sum", topic="t") == 30 + 2 * 600
    told = page.buckets("tarry_job_wait_seconds", topic="t")
    assert {le: n for le, n in told.items() if n} == {"60": 1, "600": 2}


def test_late_jobs_are_seen(tmp_path):
    """A server that did not run when a job was due is late by that, and says so."""
    with web_server(tmp_path / "store") as server:
        web = Web(web_port(server))
        web.push("t", b"x", delay="1h")
        due = web.push("t", b"x", delay="3s")["due_ms"] / 1000
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(max(0.0, due + 0.15 - time.time()))
        server.process.send_signal(signal.SIGCONT)
        late = web.reserve("t", wait="60s")[0]["late_ms"]
        assert late > 100
        told = page_of(web).buckets("tarry_job_lateness_seconds", topic="t")
        assert {le for le, n in told.items() if n} == {"1" if late < 1000 else "10"}, told
        assert server.stop() == 0


def test_next_due_and_forecast(still):
    start = still.get("/v1/clock").json["now_ms"] / 1000
    for delay in ("30s", "5m", "30m", "20h", "30d"):
        still.push("t", b"x", delay=delay)
    still.push("now", b"x")
    page = page_of(still)
    assert page.get("tarry_topic_next_due_timestamp_seconds", topic="t") == pytest.approx(
        start + 30, abs=0.01)
    assert ("tarry_topic_next_due_timestamp_seconds", (("topic", "now"),)) not in page.samples
    assert [page.get("tarry_due_jobs", within=w) for w in ("1m", "10m", "1h", "1d")] == [1, 2, 3, 4]
    advance(still, "5m")
    page = page_of(still)
    assert page.get("tarry_topic_next_due_timestamp_seconds", topic="t") == pytest.approx(
        start + 1800, abs=0.01)
    assert [page.get("tarry_due_jobs", within=w) for w in ("1m", "10m", "1h", "1d")] == [0, 0, 1, 2]


def test_many_topics(web):
    """1,000 topics by name, the rest together, and nothing is lost; a busy one is shown."""
    jobs = [json.dumps({"topic": f"t{i}", "body": "x", "delay": i % 2 * 3600}) for i in range(1200)]
    answer = web.ask("POST", "/v1/jobs", "\n".join(jobs),
                     headers={"Content-Type": "application/x-ndjson"})
    assert answer.status == 200
    page = page_of(web)
    assert len(page.topics()) == 1001 and OTHER in page.topics()
    assert page.sum("tarry_jobs_pushed_total") == 1200
    assert page.sum("tarry_jobs", state="delayed") == page.sum("tarry_jobs", state="ready") == 600
    assert page.get("tarry_jobs_pushed_total", topic=OTHER) >= 199  # "default" has a place, too
    for _ in range(3):  # some of the others are busy now
        web.ask("POST", "/v1/jobs", "\n".join(
            json.dumps({"topic": f"t{1100 + i % 10}", "body": "x"}) for i in range(3000)),
            headers={"Content-Type": "application/x-ndjson"})
    page = page_of(web)
    assert {f"t{1100 + i}" for i in range(10)} <= page.topics() and len(page.topics()) == 1001
    assert page.sum("tarry_jobs_pushed_total") == 10200
    assert page.sum("tarry_jobs") == 10200


def test_busy_ones_are_shown_while_somebody_scrapes(web):
    """Little happens between two scrapes: who is busy has a place all the same, and keeps it."""
    headers = {"Content-Type": "application/x-ndjson"}
    web.ask("POST", "/v1/jobs", "\n".join(
        json.dumps({"topic": f"t{i}", "body": "x"}) for i in range(1300)), headers=headers)
    pushed, seen = 1300, []
    for _ in range(10):
        web.ask("POST", "/v1/jobs", "\n".join(
            json.dumps({"topic": "t1299", "body": "x"}) for _ in range(150)), headers=headers)
        pushed += 150
        page = page_of(web)
        assert page.sum("tarry_jobs_pushed_total") == pushed
        assert len(page.topics()) == 1001
        seen.append(page.get("tarry_jobs_pushed_total", topic="t1299")
                    if "t1299" in page.topics() else 0)
    assert seen[2] > 0 and seen == sorted(seen)
    assert seen[-1] - seen[2] == 7 * 150


def test_never_backwards(web):
    """Topics are purged, vanish and come back; more names than there are places."""
    last, shown = {}, None
    numbers = itertools.count()
    for turn in range(12):
        jobs = [json.dumps({"topic": f"n{next(numbers)}", "body": "x"}) for _ in range(150)]
        jobs += [json.dumps({"topic": f"b{i % 7}", "body": "x"}) for i in range(300)]
        web.ask("POST", "/v1/jobs", "\n".join(jobs),
                headers={"Content-Type": "application/x-ndjson"})
        for i in range(7):
            if (i + turn) % 3 == 0:
                web.post(f"/v1/topics/b{i}/purge")
            elif (i + turn) % 3 == 1:
                web.ask("DELETE", f"/v1/topics/b{i}", force="true")
            else:
                for job in web.reserve(f"b{i}", count=1000):
                    web.post(f"/v1/jobs/{job['id']}/ack", lease=job["lease"])
        page = page_of(web)
        now = {key: value for key, value in page.samples.items()
               if key[0].endswith(("_total", "_bucket", "_count", "_sum"))}
        for key, value in last.items():
            if key in now:
                assert now[key] >= value, (turn, key, value, now[key])
        assert page.sum("tarry_jobs_pushed_total") == (turn + 1) * 450
        shown = page.topics()
        last = now
    assert {f"b{i}" for i in range(7)} <= shown and len(shown) == 1001


def test_names_are_escaped(web):
    """Whatever a topic may be called is one label."""
    name = "a-+/;.$_()Z09"
    web.push(name.replace("/", "%2F").replace(";", "%3B").replace("+", "%2B"), b"x")
    web.push(OTHER, b"x")  # is one of the others
    page = page_of(web)
    assert page.get("tarry_jobs", topic=name, state="ready") == 1
    assert page.get("tarry_jobs", topic=OTHER, state="ready") == 1
    assert page.get("tarry_jobs_pushed_total", topic=OTHER) == 1


def test_commands_and_replies(server, web):
    client = Client(server.port())
    client.put(b"x")
    client.put(b"y")
    client.ask("reserve")
    client.ask("delete 1")
    web.push("default", b"x")
    web.reserve("default")
    web.get("/nothing")
    page = page_of(web)
    command = {dict(labels)["command"]: n for labels, n in page.all("tarry_commands_total").items()}
    assert command["put"] == 2 and command["delete"] == 1 and command["push"] == 1
    assert command["reserve"] == 2  # of both ports
    assert page.get("tarry_http_replies_total", code="404") == 1
    assert page.get("tarry_http_replies_total", code="201") == 1
    assert page.get("tarry_connections", port="beanstalk") == 1
    assert page.get("tarry_connections", port="http") == 1
    client.close()


def test_storage(tmp_path):
    data = tmp_path / "store"
    with web_server(data) as server:
        web = Web(web_port(server))
        for _ in range(10):
            web.push("t", b"x" * 1000, delay="1h")
        page = page_of(web)
        disk = sum(path.stat().st_size for path in data.iterdir())
        assert page.get("tarry_storage_disk_bytes") == pytest.approx(disk, rel=0.01)
        assert 10_000 < page.get("tarry_storage_live_bytes") < 12_000
        assert page.get("tarry_commit_seconds_count") >= 10
        assert page.get("tarry_commit_batch_jobs_sum") >= 10
        assert page.get("tarry_storage_free_bytes") > 0
        resident = page.get("process_resident_memory_bytes")
        assert 1 << 20 < resident < 1 << 30
        assert abs(page.get("process_start_time_seconds") - time.time()) < PATIENCE_S
        assert server.stop() == 0


def test_head_and_slow_readers(server, web):
    """HEAD tells the length; who does not read his page keeps nobody else from theirs."""
    for i in range(300):
        web.push(f"t{i}", b"x")
    answer = web.ask("HEAD", "/metrics")
    assert answer.status == 200 and int(answer.headers["Content-Length"]) > 500_000
    with raw(server.web) as wire:
        wire.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2)
        time.sleep(0.2)
        for _ in range(3):
            assert len(page_of(web).topics()) == 302
        stream = wire.makefile("rb")
        for _ in range(2):
            assert len(Page(read_answer(stream).body.decode()).topics()) == 302
    with raw(server.web) as wire:  # and one who leaves in the middle
        wire.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wire.recv(1000)
    assert page_of(web).get("tarry_connections", port="http") <= 2


def test_scraping_is_cheap(web):
    """With 10,000 topics a page takes some milliseconds, and no round of the loop is long."""
    for start in range(0, 10_000, 2500):
        web.ask("POST", "/v1/jobs", "\n".join(
            json.dumps({"topic": f"t{i}", "body": "x", "delay": 60 + i})
            for i in range(start, start + 2500)), headers={"Content-Type": "application/x-ndjson"})
    page_of(web)
    before = page_of(web)
    for _ in range(5):
        after = page_of(web)
    cpu = (after.get("process_cpu_seconds_total") - before.get("process_cpu_seconds_total")) / 5
    assert cpu < 0.5, f"{cpu} s of CPU a page"  # 20 ms on a quiet machine; sanitizers take longer
    told = after.buckets("tarry_loop_round_seconds")
    assert sum(told.values()) > 50


def test_health(server, web):
    assert web.get("/healthz").json["status"] == "ok"
    ready = web.get("/readyz")
    assert ready.status == 200 and ready.json == {"status": "ready", "ready": True, "reasons": []}
    assert page_of(web).get("tarry_ready") == 1
    server.process.send_signal(signal.SIGUSR1)
    server.wait_for("draining")
    ready = web.get("/readyz")
    assert ready.status == 503 and ready.json["status"] == "not_ready"
    assert [reason["code"] for reason in ready.json["reasons"]] == ["draining"]
    assert ready.code == "not_ready"
    assert web.get("/healthz").status == 200
    page = page_of(web)
    assert page.get("tarry_ready") == 0 and page.get("tarry_unready", reason="draining") == 1


def told_names(text):
    """Names of metrics in a table: `name{labels}` in the first column."""
    return {name: set(filter(None, labels.split(",")))
            for name, labels in re.findall(r"^\| `(\w+)(?:\{([\w,]+)\})?` \|", text, re.M)
            if name.startswith(("tarry_", "process_"))}


def test_every_metric_is_explained(web):
    web.push("t", b"x", delay="1h")
    page = page_of(web)
    told = told_names((ROOT / "doc" / "monitoring.md").read_text())
    assert set(page.types) == set(told)
    for name, labels in told.items():
        for (sample, have), _ in page.samples.items():
            if sample == name:
                assert {label for label, _ in have} == labels, sample


# ---- contrib: alerts and dashboard ----

BUILT_IN = {"instance", "job"}  # labels that Prometheus itself adds


def check_query(page, query):
    """Each metric in it exists, with these labels; brackets are in pairs."""
    stripped = re.sub(r'"[^"]*"', '""', query)
    open_ones = []
    for c in stripped:
        if c in "({[":
            open_ones.append(c)
        elif c in ")}]":
            assert open_ones and open_ones.pop() + c in ("()", "{}", "[]"), query
    assert not open_ones, query
    found = re.findall(r"\b((?:tarry|process)_\w+|up)\b(?:\{([^}]*)\})?", query)
    assert found, query
    for name, matchers in found:
        if name == "up":
            continue
        kinds = {s for s, _ in page.samples} | {n for n, kind in page.types.items()
                                                if kind != "histogram"}
        assert name in kinds, f"{name}: {query}"
        labels = {label for (s, have), _ in page.samples.items() if s == name for label, _ in have}
        for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", matchers or ""):
            assert label in labels | BUILT_IN, f"{label} of {name}: {query}"
        if re.search(r"\b(rate|increase)\(" + name, query):  # only of what never goes back
            assert name.endswith(("_total", "_bucket", "_sum", "_count")), query
    return {name for name, _ in found}


@pytest.fixture(name="rich")
def fixture_rich(web):
    """A page with a sample of everything."""
    web.push("t", b"x", delay="1h")
    web.get("/nothing")
    return page_of(web)


@pytest.fixture(name="on_redis")
def fixture_on_redis(tmp_path):
    """A page of a server whose jobs are in Redis."""
    with Redis() as redis, web_server(tmp_path / "r", *redis.tarry()) as node:
        yield page_of(Web(web_port(node)))


def test_alerts(rich, on_redis):
    rules = yaml.safe_load((ROOT / "contrib/prometheus/alerts.yml").read_text())
    names = set()
    for group in rules["groups"]:
        assert set(group) == {"name", "rules"}
        for rule in group["rules"]:
            assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}, rule
            assert rule["alert"] not in names and re.fullmatch(r"Tarry\w+", rule["alert"])
            names.add(rule["alert"])
            assert rule["labels"]["severity"] in ("page", "ticket"), rule
            assert set(rule["annotations"]) == {"summary", "reason"}, rule
            assert len(rule["annotations"]["reason"]) > 40, rule
            assert re.fullmatch(r"\d+[smh]", rule.get("for", "0s")), rule
            used = check_query(on_redis if group["name"] == "tarry-on-redis" else rich, rule["expr"])
            if any(name.startswith("tarry_jobs_") for name in used):
                assert 'topic!="_other"' in rule["expr"], rule
    assert len(names) >= 15


def test_dashboard(rich):
    board = json.loads((ROOT / "contrib/grafana/tarry.json").read_text())
    ids, used = set(), set()
    for panel in board["panels"]:
        assert panel["id"] not in ids and panel["title"]
        ids.add(panel["id"])
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for target in panel.get("targets", []):
            query = target["expr"].replace("$__rate_interval", "5m")
            used |= check_query(rich, query)
            assert '$instance' in query, query
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            check_query(rich, variable["query"]["query"])
    assert {"tarry_job_lateness_seconds_bucket", "tarry_due_jobs", "tarry_commit_seconds_bucket",
            "tarry_storage_disk_bytes"} <= used
    text = json.dumps(board)
    assert "http://" not in text and "https://" not in text  # nothing from elsewhere


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool(web):
    page = web.get("/metrics").body
    done = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True,
                          timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    done = subprocess.run(["promtool", "check", "rules", str(ROOT / "contrib/prometheus/alerts.yml")],
                          capture_output=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr


# ---- statistics, slow commands, the log as JSON ----

def test_stats_tell_all(web):
    web.push("t", b"x", delay="1h", key="secret-key")
    stats = web.get("/v1/stats").json
    doc = (ROOT / "doc" / "http.md").read_text()
    table = doc[doc.index("The statistics, all since"):doc.index("`/v1/config` has each key")]
    told = {name.split(".")[-1] for name in re.findall(r"`([\w.]+)`", table)}
    for name, value in stats.items():
        for member in value if isinstance(value, dict) else [name]:
            assert member in told, f"{name}.{member} is not explained"
    assert stats["sync"] == "never" and stats["pushed_per_s"] == 0.1
    assert stats["store"]["disk_bytes"] > 0 and stats["memory"]["engine_used"] > 0
    assert "secret-key" not in json.dumps(stats)


def said_by(tmp_path, *flags, ask=lambda web: None):
    """Lines of stderr of a server that is asked something, and stopped."""
    done = None
    with open(tmp_path / "stderr", "wb") as out:
        process = subprocess.Popen([TARRY, "serve", "--data", str(tmp_path / "store"), "--beanstalk",
                                    "off", "--http", "127.0.0.1:0", "--sync", "never", *flags],
                                   stdout=subprocess.PIPE, stderr=out, text=True)
        try:
            port = next(int(line.rsplit(":", 1)[1]) for line in process.stdout
                        if line.startswith("listening: http"))
            web = Web(port)
            ask(web)
            web.close()
            process.send_signal(signal.SIGHUP)
            process.terminate()
            done = process.wait(PATIENCE_S)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
    assert done == 0
    return (tmp_path / "stderr").read_text().splitlines()


def busy(web):
    """Work that takes some milliseconds of the loop, about a topic."""
    web.push("a;$(b)", b"hush" * 100_000)
    body = json.dumps([{"topic": "many", "body": "hush" * 10} for _ in range(20_000)])
    assert web.ask("POST", "/v1/jobs", body).status == 200


def test_slow_commands_are_told(tmp_path):
    lines = said_by(tmp_path, "--set", "log.slow=0.00001",
                    ask=lambda web: web.push("a;$(b)", b"x" * 500_000))
    slow = [line for line in lines if line.startswith("slow: ")]
    assert any(re.fullmatch(r"slow: push of http on a;\$\(b\) took [\d.]+ ms of the loop", line)
               for line in slow), lines
    assert not any(line.startswith("slow: ")
                   for line in said_by(tmp_path, "--set", "log.slow=off", ask=busy))


def test_every_line_is_json(tmp_path):
    """Whatever a name or a file says, each line is one object, and no body is in it."""
    conf = tmp_path / 'odd "name"\n\\u0000.conf'
    conf.write_text("[log]\nslow = 0.00001\n")
    lines = said_by(tmp_path, "--log-json", "--log-level", "debug", "--config", str(conf), ask=busy)
    assert lines
    told = [json.loads(line) for line in lines]
    for line in told:
        assert {"time", "level", "msg"} <= set(line) and line["level"] in (
            "error", "warning", "info", "debug")
    slow = [line for line in told if line.get("slow")]
    assert {"push", "push_many"} <= {line["command"] for line in slow}
    assert {line["topic"] for line in slow if line["command"] == "push"} == {"a;$(b)"}
    assert all(line["took_us"] >= 10 and line["port"] == "http" for line in slow)
    assert "hush" not in "".join(lines)


def test_slow_takes_off_or_a_time(tmp_path):
    for value, why in (("0", "say off"), ("x", "slow")):
        done = tarry("serve", "--data", tmp_path / "s", "--set", f"log.slow={value}")
        assert done.returncode == 2 and why in done.stderr, done.stderr
