"""/openapi.json against the server: every route, parameter and status in it is real, and none is
missing."""
import json
import re
import signal
import socket

import pytest

from on_redis import Redis
from on_sql import Both
from web import Web, raw, read_answer, ready_web, web_port, web_server


class Watched(Web):
    """A client that notes which route answered what."""

    def __init__(self, port, described):
        super().__init__(port)
        self.described = described
        self.seen = set()

    def route(self, method, path):
        best = None
        for operation in self.described:
            pattern = re.sub(r"\{\w+\}", "[^/]+", operation.path)
            if method == operation.method and re.fullmatch(pattern, path.split("?")[0]):
                if best is None or best.path.count("{") > operation.path.count("{"):
                    best = operation
        return best

    def ask(self, method, path, *args, **more):
        answer = super().ask(method, path, *args, **more)
        self.seen.add((self.route(method, path).name, answer.status))
        return answer


class Operation:
    def __init__(self, path, method, about):
        self.path = path
        self.method = method.upper()
        self.name = about["operationId"]
        self.params = {p["name"]: p for p in about["parameters"] if p["in"] == "query"}
        self.in_path = {p["name"] for p in about["parameters"] if p["in"] == "path"}
        self.statuses = {int(status) for status in about["responses"] if status != "default"}
        content = about.get("requestBody", {}).get("content", {})
        schema = content.get("application/json", {}).get("schema", {})
        self.many = schema.get("type") == "array"
        schema = schema.get("items", schema)
        self.members = schema.get("properties")
        self.needed = schema.get("required", [])

    def sample(self):
        """Its path with something in each brace."""
        return re.sub(r"\{(\w+)\}", lambda m: {"id": "1", "topic": "t"}.get(m[1], "k"), self.path)


@pytest.fixture
def server(tmp_path):
    with web_server(tmp_path / "store", "--sync", "never", "--set", "http.classic=on") as made:
        made.web = web_port(made)
        yield made


@pytest.fixture
def described(server):
    text = Web(server.web).get("/openapi.json").json
    assert text["openapi"] == "3.1.0" and text["info"]["version"]
    return [Operation(path, method, about) for path, methods in text["paths"].items()
            for method, about in methods.items()]


def test_names_are_unique(described):
    assert len({operation.name for operation in described}) == len(described) > 50
    for operation in described:
        assert operation.in_path == set(re.findall(r"\{(\w+)\}", operation.path))


def test_every_parameter_is_real_and_none_is_missing(server, described):
    web = Web(server.web)
    names = {name for operation in described for name in operation.params}
    names |= {name for operation in described for name in operation.members or ()}
    for operation in described:
        for name in names:
            answer = web.ask(operation.method, f"{operation.sample()}?{name}=%00")
            unknown = answer.status == 400 and re.search(r"is not known here|in JSON only",
                                                         answer.json["error"]["message"])
            assert bool(unknown) == (name not in operation.params), (operation.name, name, answer)
        for name, about in operation.params.items():
            others = [f"{other}=1" for other in operation.params
                      if operation.params[other]["required"] and other != name]
            answer = web.ask(operation.method, operation.sample() + "?" + "&".join(others))
            missing = answer.status == 400 and f"{name} is missing" in answer.json["error"]["message"]
            assert missing or not about["required"], (operation.name, name, answer)


def test_every_member_is_real_and_none_is_missing(server, described):
    web = Web(server.web)
    names = {name for operation in described for name in operation.members or ()}
    for operation in described:
        if operation.members is None:
            continue
        for name in names:
            item = {name: []}
            body = json.dumps([item] if operation.many else item)
            answer = web.ask(operation.method, operation.sample(), body)
            told = answer.json["results"][0] if operation.many else answer.json
            unknown = "is not known here" in told.get("error", {}).get("message", "")
            assert unknown == (name not in operation.members), (operation.name, name, answer)
        for name in operation.needed:
            answer = web.ask(operation.method, operation.sample(), "[{}]" if operation.many else "{}").json
            answer = answer["results"][0] if operation.many else answer
            assert "is missing" in answer["error"]["message"]


def jobs(web):
    """Every status of the routes about one job."""
    for base in ("/v1/jobs/{}", "/v1/topics/t/keys/k"):
        made = web.push("t", b"x", key="k", delay="1h")["id"]
        path = base.format(made)
        for what in ("", "/history"):
            web.get(path + what)
        web.ask("PATCH", path, '{"priority":1}')
        web.ask("PATCH", path, json.dumps({"body": "x" * ((1 << 20) + 1)}))
        web.post(path + "/kick")
        web.post(path + "/fire")
        web.post(path + "/fire")
        lease = web.reserve("t")[0]["lease"]
        web.ask("PATCH", path, '{"priority":1}')
        web.ask("DELETE", path)
        web.post(f"/v1/jobs/{made}/bury", lease=lease)
        web.post(path + "/kick")
        web.ask("DELETE", path)
        for method, what in [("GET", ""), ("GET", "/history"), ("PATCH", ""), ("DELETE", ""),
                             ("POST", "/fire"), ("POST", "/kick")]:
            web.ask(method, path + what, '{"priority":1}' if method == "PATCH" else None)
    web.get("/v1/jobs/99999/history")  # of one that is gone it is still known
    web.push("t", b"x", key="k")
    web.push("t", b"x", key="k")
    web.post("/v1/topics/t/jobs", b"x", key="k", on_conflict="error")
    web.post("/v1/topics/t/jobs", b"x" * ((1 << 20) + 1))


def leases(web):
    for what in ("touch", "release", "bury", "ack"):
        made = web.push("l", b"x")["id"]
        web.post(f"/v1/jobs/{made}/{what}", lease="x")
        lease = web.reserve("l")[0]["lease"]
        web.post(f"/v1/jobs/{made}/{what}", lease=lease)
        web.post(f"/v1/jobs/99999/{what}", lease=lease)
        web.ask("DELETE", f"/v1/jobs/{made}", force="true")
    web.reserve("l")
    web.push("l", b"x")
    for _ in range(2):
        web.post("/v1/reserve", topics="l")
    for path in ("/v1/jobs", "/v1/ack"):
        web.ask("POST", path, "[]")
        web.ask("POST", path, "[" + ",".join(["1"] * 100_001) + "]")


def topics(web):
    web.push("p", b"x")
    web.get("/v1/topics")
    for topic in ("p", "nobody"):
        web.get(f"/v1/topics/{topic}")
        web.ask("DELETE", f"/v1/topics/{topic}")
        for what in ("resume", "purge"):
            web.post(f"/v1/topics/{topic}/{what}")
    web.ask("DELETE", "/v1/topics/p")
    web.push("p", b"x")
    web.ask("DELETE", "/v1/topics/p", force="true")
    web.post("/v1/topics/p/pause")
    for method in ("PUT", "PATCH"):
        web.ask(method, "/v1/topics/p", '{"retries":3}')
        web.ask(method, "/v1/topics/p", '{"spread":3}')
        web.ask(method, "/v1/topics/p", " " * 8_000_000)
    web.get("/v1/jobs")
    for what in ("cancel?", "shift?by=1s&", "kick?"):
        web.post(f"/v1/jobs/{what}tag=x")
    web.get("/v1/jobs", topic="p")
    web.post("/v1/jobs/cancel", topic="p")
    web.post("/v1/jobs/shift", topic="p", by="1s")
    web.post("/v1/jobs/kick", topic="p")
    web.get("/v1/forecast")
    web.get("/v1/forecast", topic="nobody")


def facts(web):
    for path in ("/", "/ui/app.js"):
        tag = web.get(path).headers["ETag"]
        web.ask("GET", path, headers={"If-None-Match": tag})
    web.get("/ui/nothing")
    for path in ("/v1/stats", "/v1/config", "/healthz", "/readyz", "/openapi.json", "/metrics", "/v1/whoami",
                 "/v1/schedules", "/v1/schedules/k", "/v1/schedules/k/next", "/v1/clock"):
        web.get(path)
    for what in ("run", "pause", "resume"):
        web.post(f"/v1/schedules/k/{what}")
    web.ask("DELETE", "/v1/schedules/k")
    every = {"topic": "k", "every": "1h"}
    web.ask("PUT", "/v1/schedules/k", json.dumps(every))
    web.ask("PUT", "/v1/schedules/k", json.dumps({**every, "limit": 3}))
    web.ask("PUT", "/v1/schedules/k", json.dumps({**every, "body": "x" * 65536}))
    for path in ("/v1/schedules", "/v1/schedules/k", "/v1/schedules/k/next"):
        web.get(path)
    for what in ("run", "pause", "resume"):
        web.post(f"/v1/schedules/k/{what}")
    web.post("/v1/topics/k/pause", what="in")
    web.post("/v1/schedules/k/run")
    web.ask("DELETE", "/v1/schedules/k")
    web.post("/v1/clock/advance", by="1s")
    web.post("/v1/backup", dir="x")
    web.get("/v1/cluster")
    web.post("/v1/restore")
    web.post("/v1/jobs/7/restore")


def classic(web):
    push = json.dumps({"topic": "c", "bizKey": "b", "delay": 3600_000, "body": "x"})
    number = web.ask("POST", "/push", push).body.decode()
    web.ask("POST", "/push", json.dumps({"topic": "c", "body": "x" * ((1 << 20) + 1)}))
    web.ask("POST", "/push", "<a/>", headers={"Content-Type": "text/xml"})
    web.get(f"/reStore/{number}")
    web.post(f"/v1/jobs/{number}/fire")
    lease = web.reserve("c")[0]["lease"]
    web.ask("POST", "/push", push)
    web.get("/delete", id=number)
    web.post(f"/v1/jobs/{number}/bury", lease=lease)
    web.get(f"/reStore/{number}")
    web.get("/get/c")
    for path in (f"/reStore/{number}", f"/delete?id={number}"):
        web.get(path)
    number = web.ask("POST", "/push", push).body.decode()
    web.get("/delete", id=number)
    web.get("/reStore")
    web.get("/reStore", expire="false")


def clock(folder, described):
    with web_server(folder / "clock", "--test-clock") as server:
        web = Watched(web_port(server), described)
        web.get("/v1/clock")
        web.post("/v1/clock/advance", by="1s")
        web.post("/v1/clock/advance", to="2020-01-01T00:00:00Z")
        assert server.stop() == 0
        return web.seen


def backup(folder, described):
    (folder / "copies").mkdir()
    with web_server(folder / "copied", "--set", f"store.backup_root={folder / 'copies'}") as server:
        web = Watched(web_port(server), described)
        web.post("/v1/backup", dir="x")
        web.post("/v1/backup", dir="x")
        assert server.stop() == 0
        return web.seen


def on_redis(folder, described):
    with Redis() as redis, web_server(folder / "none", *redis.tarry()) as server:
        web = Watched(web_port(server), described)
        web.get("/v1/cluster")
        assert server.stop() == 0
        return web.seen


def on_sql(folder, described):
    with Both() as both, web_server(folder / "none", *both.tarry()) as server:
        web = Watched(ready_web(server).port, described)
        job = web.push("t", b"x")["id"]
        web.post("/v1/restore")
        web.post(f"/v1/jobs/{job}/restore")
        web.post(f"/v1/jobs/{job}/bury", force="true")
        web.post(f"/v1/jobs/{job}/restore")
        web.ask("DELETE", f"/v1/jobs/{job}")
        web.post(f"/v1/jobs/{job}/restore")
        assert server.stop() == 0
        return web.seen


def test_every_status_is_real_and_none_is_missing(server, described, tmp_path):
    web = Watched(server.web, described)
    for scenario in (jobs, leases, topics, facts, classic):
        scenario(web)
    for operation in described:
        web.ask(operation.method, operation.sample(), nonsense=1)
        if operation.members is not None:
            web.ask(operation.method, operation.sample(), "<a/>", headers={"Content-Type": "text/xml"})
    server.process.send_signal(signal.SIGUSR1)
    server.wait_for("draining")
    web.get("/readyz")
    with raw(server.web) as wire:  # a wait of 30 s, but for those who send no more
        wire.sendall(b"GET /get/empty HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wire.shutdown(socket.SHUT_WR)
        seen = web.seen | {("classic_get", read_answer(wire.makefile("rb")).status)}
    seen |= clock(tmp_path, described) | backup(tmp_path, described) | on_redis(tmp_path, described)
    seen |= on_sql(tmp_path, described)
    told = {(operation.name, status) for operation in described for status in operation.statuses}
    assert sorted(told - seen) == []  # not real
    assert sorted(seen - told) == []  # missing
