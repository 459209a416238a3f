"""Tokens, roles and topics on both ports; browsers; and input that means harm."""
import hashlib
import json
import re
import signal
import socket
import threading

import pytest

from client import Client
from harness import PATIENCE_S, tarry
from web import Web, raw, read_answer, talk, web_port, web_server

ROLES = ("read", "produce", "consume", "admin")


def secret(name):
    """A token for tests: what makes it one is only that its digest is in the config."""
    return f"tarry_{hashlib.sha256(name.encode()).hexdigest()}"


def line(name, role, topics="*", *more):
    digest = hashlib.sha256(secret(name).encode()).hexdigest()
    return " ".join([f"{name} = {role} {topics} sha256:{digest}", *more])


class Holder(Web):
    """A client with a token."""

    def __init__(self, port, name=None, token=None):
        super().__init__(port)
        self.token = token or (secret(name) if name else None)

    def ask(self, method, path, body=None, headers=None, **query):
        headers = dict(headers or {})
        if self.token is not None:
            headers.setdefault("Authorization", f"Bearer {self.token}")
        return super().ask(method, path, body, headers, **query)


def guarded(folder, *lines, flags=()):
    """A server with these tokens in its config file."""
    config = folder / "tarry.conf"
    config.write_text("[http]\nclassic = on\n\n[tokens]\n" + "\n".join(lines) + "\n")
    return web_server(folder / "store", "--sync", "never", "--config", str(config), *flags)


STANDARD = [line(role, role) for role in ROLES] + [
    line("eu", "admin", "eu-*"), line("one", "read+produce+consume", "eu-orders"),
    line("two", "read+produce+consume", "eu-orders,us")]


@pytest.fixture
def server(tmp_path):
    with guarded(tmp_path, *STANDARD) as made:
        made.web = web_port(made)
        yield made


def client(server, name):
    """A beanstalk client that is in."""
    made = Client(server.port())
    assert made.say(f"auth {secret(name)}") == "AUTHENTICATED"
    return made


# ---- who ----

def test_no_token_or_a_wrong_one(server):
    stranger = Holder(server.web)
    for path in ("/v1/stats", "/v1/topics/t", "/nothing/here", "/openapi.json", "/metrics"):
        answer = stranger.get(path)
        assert (answer.status, answer.code) == (401, "unauthorized")
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert stranger.post("/v1/topics/t/jobs", b"x").status == 401
    for path in ("/healthz", "/readyz"):
        assert stranger.get(path).status == 200
    for path in ("/", "/ui/app.js"):
        assert stranger.get(path).status == 200  # the dashboard asks for a token itself
    good = secret("admin")
    for header in ("", "Bearer", "Bearer ", "Bearer x", f"Bearer {good}x", f"Bearer {good[:-1]}",
                   f"Basic {good}", good, f"Bearer  {good} x", f"bearer{good}", "Bearer " + "a" * 9000,
                   f"Bearer {good.upper()}"):
        answer = stranger.ask("GET", "/v1/stats", headers={"Authorization": header})
        assert answer.status == 401, header
        assert good not in answer.body.decode() and "aaaa" not in answer.body.decode()
    for header in (f"Bearer {good}", f"bearer {good}", f"BEARER   {good}"):
        assert stranger.ask("GET", "/v1/stats", headers={"Authorization": header}).status == 200
    two = b"GET /v1/stats HTTP/1.1\r\nHost: x\r\n" + b"Authorization: Bearer x\r\n" * 2 + b"\r\n"
    assert talk(server.web, two)[0].status == 400


def test_a_stranger_makes_us_keep_nothing(server):
    """No body is waited for that is refused, and no wait is begun."""
    with raw(server.web) as wire:
        wire.sendall(b"POST /v1/topics/t/jobs HTTP/1.1\r\nHost: localhost\r\n"
                     b"Content-Length: 1000000\r\nExpect: 100-continue\r\n\r\n")
        assert read_answer(wire.makefile("rb")).status == 401
    chunks = b"fffff\r\n" + b"x" * 0xfffff + b"\r\n"
    with raw(server.web) as wire:
        wire.sendall(b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            for _ in range(30):
                wire.sendall(chunks)
        except OSError:
            pass
        assert read_answer(wire.makefile("rb")).status in (401, 413)
    assert Holder(server.web).post("/v1/topics/t/reserve", wait="10m").status == 401


# ---- roles: every route ----

def operations(web):
    described = web.get("/openapi.json").json
    for path, methods in described["paths"].items():
        for method, about in methods.items():
            yield path, method.upper(), about


def sample(path, topic="t"):
    return re.sub(r"\{(\w+)\}", lambda m: {"id": "1", "topic": topic}.get(m[1], "k"), path)


def test_every_route_has_its_role(server):
    """Without the role 403, with it anything else; the query is wrong, so nothing happens."""
    admin = Holder(server.web, "admin")
    seen = set()
    for path, method, about in operations(admin):
        role = about["x-tarry-role"]
        seen.add(role)
        assert (about.get("security") == []) == (role == "none"), path
        url = sample(path) + "?nonsense=1"
        assert Holder(server.web).ask(method, url).status == (401 if role != "none" else 400), url
        for name in ROLES:
            answer = Holder(server.web, name).ask(method, url)
            expected = 400 if role in ("none", name) or name == "admin" else 403
            assert answer.status == expected, (name, method, url, answer)
            if expected == 403:
                assert answer.code == "forbidden" and role in answer.json["error"]["message"]
    assert seen == {"none", *ROLES}


def test_roles_are_those_of_the_contract(server):
    """read looks; produce pushes, cancels, patches, fires; consume has to do with leases."""
    names = {about["operationId"]: (method, about["x-tarry-role"])
             for _, method, about in operations(Holder(server.web, "admin"))}
    produce = {"push", "push_many", "cancel", "edit", "fire", "cancel_many", "shift_many",
               "key_cancel", "key_edit", "key_fire", "classic_push", "classic_delete"}
    consume = {"reserve", "reserve_many", "ack", "ack_many", "release", "bury", "touch", "classic_get"}
    free = {"healthz", "readyz", "dashboard", "dashboard_file"}
    for name, (method, role) in names.items():
        expected = ("produce" if name in produce else "consume" if name in consume else
                    "none" if name in free else
                    "admin" if method != "GET" or name.startswith("classic") else "read")
        assert role == expected, name
    assert produce | consume | free <= set(names)


def test_whoami_tells_what_a_token_may(server):
    roles = {"admin": ["read", "produce", "consume", "admin"], "read": ["read"]}
    for name in ("admin", "read", "eu"):
        told = Holder(server.web, name).get("/v1/whoami").json
        assert told["name"] == name and told["roles"] == roles.get(name, told["roles"])
        assert (told["topics"] == "*") == (name != "eu")
    assert Holder(server.web).get("/v1/whoami").status == 401
    assert Holder(server.web, "produce").get("/v1/whoami").status == 403  # it may not look


def test_a_route_about_all_topics_needs_a_token_for_all(server):
    narrow, wide = Holder(server.web, "eu"), Holder(server.web, "admin")
    whole = set()
    for path, method, about in operations(wide):
        answer = narrow.ask(method, sample(path, "eu-t") + "?nonsense=1")
        if about.get("x-tarry-all-topics"):
            whole.add(about["operationId"])
            assert answer.status == 403 and "all topics" in answer.json["error"]["message"], path
        else:
            assert answer.status == 400, (path, answer)
        if "{topic}" in path:
            assert not about["x-tarry-all-topics"]
            assert narrow.ask(method, sample(path, "us-t") + "?nonsense=1").status == 403, path
    assert {"stats", "config", "metrics", "backup", "clock_advance", "classic_restore"} <= whole


# ---- topics ----

def test_topics_over_http(server):
    admin, eu = Holder(server.web, "admin"), Holder(server.web, "eu")
    theirs = admin.push("us", b"theirs", key="k", delay="1h")["id"]
    ours = admin.push("eu-orders", b"ours", key="k", delay="1h")["id"]
    assert eu.push("eu-x", b"x")["topic"] == "eu-x"
    for path in ("us", "eu", "xeu-x", "Eu-x", "eu-x%2F..%2Fus"):
        status = eu.post(f"/v1/topics/{path}/jobs", b"x").status
        assert status == (201 if path.startswith("eu-") else 403), path
    for topic in ("us", "nobody"):  # whether it exists cannot be told
        assert eu.get(f"/v1/topics/{topic}").status == 403
        assert eu.get(f"/v1/topics/{topic}/keys/k").status == 403
        assert eu.post(f"/v1/topics/{topic}/purge").status == 403
    absent = eu.get("/v1/jobs/999999")
    for path in (f"/v1/jobs/{theirs}", f"/v1/jobs/{theirs}/history"):
        answer = eu.get(path)
        assert (answer.status, answer.body) == (404, absent.body)  # as if it did not exist
    for method, what in (("DELETE", ""), ("PATCH", "?priority=1"), ("POST", "/fire"), ("POST", "/kick"),
                         ("POST", "/ack?lease=x"), ("POST", "/release?lease=x"),
                         ("POST", "/bury?lease=x"), ("POST", "/touch?lease=x")):
        answer = eu.ask(method, f"/v1/jobs/{theirs}{what}")
        assert (answer.status, answer.body) == (404, absent.body), what
    assert eu.ask("GET", f"/delete?id={theirs}").status == 404
    assert eu.ask("GET", f"/reStore/{theirs}").status == 404
    assert eu.ask("GET", "/get/us").status == 403
    assert eu.post("/push", json.dumps({"topic": "us", "body": "x"})).status == 403
    assert admin.get(f"/v1/jobs/{theirs}").json["body"] == "theirs"
    for what in ("", "/history"):
        assert eu.get(f"/v1/jobs/{ours}{what}").status == 200
    assert eu.ask("PATCH", f"/v1/jobs/{ours}", priority=7).json["priority"] == 7
    assert eu.post(f"/v1/jobs/{ours}/fire").json["state"] == "ready"
    assert {t["name"] for t in eu.get("/v1/topics").json["topics"]} == {"eu-orders", "eu-x",
                                                                        "eu-x/../us"}
    assert eu.ask("PUT", "/v1/topics/eu-x", '{"retries":3}').status == 200
    assert eu.ask("PUT", "/v1/topics/us", '{"retries":3}').status == 403


def test_many_over_http(server):
    admin, eu = Holder(server.web, "admin"), Holder(server.web, "eu")
    answer = eu.post("/v1/jobs", json.dumps([{"topic": "eu-a", "body": "1"}, {"topic": "us", "body": "2"},
                                             {"topic": "eu-b", "body": "3"}])).json["results"]
    assert [item.get("topic") or item["error"]["code"] for item in answer] == ["eu-a", "forbidden",
                                                                               "eu-b"]
    assert admin.get("/v1/topics/us").status == 404  # not even the topic was made
    admin.push("us", b"theirs")
    assert eu.post("/v1/reserve", topics="eu-a,us").status == 403
    assert eu.post("/v1/reserve", topics="us,eu-a", wait="5s").status == 403
    mine = eu.post("/v1/reserve", topics="eu-a,eu-b", count=9).json["jobs"]
    assert {job["body"] for job in mine} == {"1", "3"}
    theirs = admin.reserve("us")[0]
    items = [{"id": job["id"], "lease": job["lease"]} for job in [mine[0], theirs, mine[1]]]
    results = eu.post("/v1/ack", json.dumps(items)).json["results"]
    assert [item.get("acked") or item["error"]["code"] for item in results] == [True, "not_found", True]
    assert admin.post(f"/v1/jobs/{theirs['id']}/ack", lease=theirs["lease"]).status == 200


def test_lists_without_a_topic(server):
    admin = Holder(server.web, "admin")
    eu, one, two = (Holder(server.web, name) for name in ("eu", "one", "two"))
    for topic in ("eu-orders", "us", "other"):
        admin.push(topic, topic.encode(), delay="1h", tag="x")
    for web in (eu, two):  # several topics: one has to be named
        for path in ("/v1/jobs", "/v1/jobs?tag=x", "/v1/forecast"):
            answer = web.get(path)
            assert answer.status == 403 and answer.json["error"]["field"] == "topic"
        assert web.get("/v1/jobs", topic="other").status == 403
        assert len(web.get("/v1/jobs", topic="eu-orders").json["jobs"]) == 1
        assert web.get("/v1/forecast", topic="other").status == 403
        assert web.get("/v1/forecast", topic="eu-orders").status == 200
    for path in ("/v1/jobs/cancel", "/v1/jobs/shift?by=1h"):
        assert two.ask("POST", path + ("&" if "?" in path else "?") + "tag=x").status == 403
        assert two.ask("POST", path + ("&" if "?" in path else "?") + "topic=other").status == 403
    assert [job["topic"] for job in one.get("/v1/jobs").json["jobs"]] == ["eu-orders"]  # its only one
    assert sum(step["count"] for step in
               one.get("/v1/forecast", to="2100-01-01T00:00:00Z").json["steps"]) == 1
    assert one.ask("POST", "/v1/jobs/cancel?tag=x").json["done"] == 1
    assert {job["topic"] for job in admin.get("/v1/jobs").json["jobs"]} == {"us", "other"}


# ---- the beanstalk port ----

COMMANDS = {  # what each needs: one of the roles, or any
    "put 1 0 60 1\r\nx": "produce", "peek 1": "read", "peek-ready": "read", "peek-delayed": "read",
    "peek-buried": "read", "reserve-with-timeout 0": "consume", "reserve-job 999": "consume",
    "delete 999": "produce consume", "release 999 1 0": "consume", "bury 999 1": "consume",
    "kick 1": "admin", "kick-job 999": "admin", "touch 999": "consume", "stats-job 999": "read",
    "stats-tube default": "read", "stats": "read", "use t": "any", "watch t": "any", "ignore t": "any",
    "list-tubes-watched": "any", "list-tube-used": "any", "list-tubes": "read",
    "pause-tube default 0": "admin", "quit": "any",
}


def test_beanstalk_without_a_token(server):
    with Client(server.port()) as stranger:
        for command in COMMANDS:
            if command != "quit":
                assert stranger.say(command) == "UNAUTHORIZED", command
        for command in ("nonsense", "put x", "x" * 500, "auth", "auth ", f"auth {secret('nobody')}",
                        f"auth {secret('admin')} ", "put 1 0 60 70000\r\n" + "x" * 70000):
            assert stranger.say(command) == "UNAUTHORIZED", command
        stranger.send("put 1 0 60 6\r\nquit\r\n\r\nlist-tubes\r\n")  # a body is no command
        assert [stranger.reply().word for _ in range(2)] == ["UNAUTHORIZED"] * 2
        assert stranger.say(f"auth {secret('read')}") == "AUTHENTICATED"
        assert stranger.say("peek-ready") == "NOT_FOUND"
        assert stranger.say("nonsense") == "UNKNOWN_COMMAND"
        assert stranger.say("auth wrong") == "UNAUTHORIZED"  # and what was before is gone
        assert stranger.say("peek-ready") == "UNAUTHORIZED"
        assert stranger.say("quit") == "UNAUTHORIZED"
        with pytest.raises(EOFError):
            stranger.more()
    assert Holder(server.web, "admin").get("/v1/stats").json["ready"] == 0


def test_every_beanstalk_command_has_its_role(server):
    for name in ROLES:
        with client(server, name) as made:
            for command, needs in COMMANDS.items():
                if command == "quit":
                    continue
                allowed = name == "admin" or needs == "any" or name in needs.split()
                said = made.say(command)
                assert (said != "UNAUTHORIZED") == allowed, (name, command, said)


def test_beanstalk_topics(server):
    admin = client(server, "admin")
    admin.say("use us")
    theirs = admin.put(b"theirs")
    admin.say("use eu-orders")
    with client(server, "eu") as eu:
        assert eu.say("list-tubes-watched").startswith("OK")  # default is not for it, so it is gone
        assert eu.ask("list-tubes-watched").body == b"---\n"
        for command in ("put 1 0 60 1\r\nx", "peek-ready", "kick 1", "reserve-with-timeout 0", "reserve",
                        "use us", "watch us", "stats-tube us", "pause-tube us 1", "stats"):
            assert eu.say(command) == "UNAUTHORIZED", command
        for command in ("peek {}", "delete {}", "stats-job {}", "kick-job {}", "reserve-job {}",
                        "release {} 1 0", "bury {} 1", "touch {}"):
            assert eu.say(command.format(theirs)) == "NOT_FOUND", command
        assert eu.say("ignore default") == "WATCHING 0"
        assert eu.say("use eu-orders") == "USING eu-orders"
        assert eu.say("watch eu-orders") == "WATCHING 1"
        mine = eu.put(b"mine")
        assert eu.ask("list-tubes").body == b"---\n- eu-orders\n"
        assert eu.reserve() == (mine, b"mine")
        assert eu.say(f"stats-job {mine}").startswith("OK")
        assert eu.say(f"delete {mine}") == "DELETED"
        assert eu.say("ignore eu-orders") == "NOT_IGNORED"
        assert eu.say(f"auth {secret('admin')}") == "AUTHENTICATED"  # another token, more topics
        assert eu.say("watch us") == "WATCHING 2"
        assert eu.say(f"auth {secret('eu')}") == "AUTHENTICATED"  # and fewer again
        assert eu.ask("list-tubes-watched").body == b"---\n- eu-orders\n"
        assert eu.reserve() is None
    assert admin.peek(theirs) == b"theirs"


def test_a_consumer_finishes_only_what_it_has(server):
    producer, consumer, other = (client(server, name) for name in ("produce", "consume", "consume"))
    first, second = producer.put(b"1"), producer.put(b"2")
    assert consumer.say(f"delete {first}") == "UNAUTHORIZED"  # to cancel it is to produce
    assert consumer.reserve() == (first, b"1")
    assert other.say(f"delete {first}") == "NOT_FOUND"
    assert consumer.say(f"delete {first}") == "DELETED"
    assert producer.say(f"delete {second}") == "DELETED"
    assert producer.say("reserve-with-timeout 0") == "UNAUTHORIZED"


def test_auth_is_unknown_without_tokens(tmp_path):
    """As for beanstalkd."""
    with web_server(tmp_path / "store") as server:
        with Client(server.port()) as made:
            assert made.say("auth x") == "UNKNOWN_COMMAND"
            assert made.say("auth") == "UNKNOWN_COMMAND"
            assert made.put(b"x") == 1
        assert server.stop() == 0


# ---- limits ----

def test_wrong_tokens_by_count(server):
    stranger = Holder(server.web, token="wrong")
    answers = [stranger.get("/v1/stats") for _ in range(130)]
    while answers[-1].status != 429 and len(answers) < 1000:  # some are forgiven by and by: a slow machine needs more
        answers.append(stranger.get("/v1/stats"))
    statuses = [answer.status for answer in answers]
    assert statuses[:100] == [401] * 100
    assert 429 in statuses[100:]
    last = next(answer for answer in answers if answer.status == 429)
    assert last.code == "too_many_failures" and int(last.headers["Retry-After"]) >= 1
    assert Holder(server.web, "read").get("/v1/stats").status == 200  # nobody is locked out
    figures = Holder(server.web, "read").get("/v1/stats").json["auth"]
    assert figures["failed"] == len(answers) and figures["too_many"] == statuses.count(429)
    server.wait_for(r"warning: many wrong tokens come from 127\.0\.0\.1\n")
    with Client(server.port()) as made:  # counted together, and closed
        assert made.say("auth wrong") == "UNAUTHORIZED"
        try:
            while made.say("auth wrong") == "UNAUTHORIZED":
                pass
            raise AssertionError
        except (EOFError, OSError):
            pass
    with client(server, "admin") as made:
        assert made.put(b"x") == 1


def test_rate_of_a_token(tmp_path):
    with guarded(tmp_path, line("slow", "admin", "*", "rate:0.01"), line("fast", "admin")) as server:
        port = web_port(server)
        slow, fast = Holder(port, "slow"), Holder(port, "fast")
        assert slow.push("t", b"x")["id"] == "1"
        answer = slow.post("/v1/topics/t/jobs", b"x")
        assert (answer.status, answer.code) == (429, "rate_limited")
        assert 90 <= int(answer.headers["Retry-After"]) <= 100
        assert Holder(port, "slow").get("/v1/stats").status == 429  # on all connections together
        with client(server, "slow") as made:
            made.send("put 1 0 60 6\r\nquit\r\n\r\n")
            assert made.reply().word == "OUT_OF_MEMORY"
            assert made.say("list-tubes") == "OUT_OF_MEMORY"
        for _ in range(200):
            assert fast.get("/v1/stats").status == 200
        assert fast.get("/v1/stats").json["auth"]["limited"] == 4
        page = fast.get("/metrics").body.decode()
        assert 'tarry_auth_refused_total{reason="limited"} 4\n' in page
        assert 'tarry_auth_refused_total{reason="absent"} 0\n' in page
        assert Holder(port).get("/v1/stats").status == 401
        assert 'tarry_auth_refused_total{reason="absent"} 1\n' in fast.get("/metrics").body.decode()
        assert fast.get("/v1/stats").json["ready"] == 1
        assert server.stop() == 0


# ---- reading the config again ----

def reload(server, folder, *lines, says):
    (folder / "tarry.conf").write_text("[http]\nclassic = on\n\n[tokens]\n" + "\n".join(lines) + "\n")
    server.process.send_signal(signal.SIGHUP)
    server.wait_for(says)


def test_tokens_are_read_again(tmp_path):
    with guarded(tmp_path, line("old", "admin"), line("kept", "admin"), line("less", "admin")) as server:
        port = web_port(server)
        old, kept, less = (Holder(port, name) for name in ("old", "kept", "less"))
        for web in (old, kept, less):
            assert web.get("/v1/stats").status == 200
        stalk = {name: client(server, name) for name in ("old", "kept", "less")}
        waits = {}

        def wait(name):
            waits[name] = Holder(port, name).post("/v1/topics/wait/reserve", wait="5m").status

        threads = [threading.Thread(target=wait, args=(name,)) for name in ("old", "kept")]
        for thread in threads:
            thread.start()
        for name in ("old", "kept"):
            stalk[name].send("reserve\r\n")
        while kept.get("/v1/stats").json["waiting"] < 4:
            pass
        reload(server, tmp_path, line("kept", "admin"), line("less", "produce", "eu-*"),
               line("new", "read"), says="the token new is new")
        assert "the token old is revoked" in server.said
        assert "the token less has changed" in server.said
        threads[0].join(PATIENCE_S)
        assert waits == {"old": 401}
        assert stalk["old"].reply().word == "UNAUTHORIZED"
        assert stalk["old"].say("put 1 0 60 1\r\nx") == "UNAUTHORIZED"
        assert old.get("/v1/stats").status == 401
        assert less.get("/v1/stats").status == 403
        assert stalk["less"].say("put 1 0 60 1\r\nx") == "UNAUTHORIZED"  # default is not eu-*
        assert stalk["less"].say("use eu-1") == "USING eu-1"
        assert stalk["less"].put(b"x") == 1
        assert stalk["less"].say("peek-ready") == "UNAUTHORIZED"
        assert Holder(port, "new").get("/v1/stats").status == 200
        kept.push("wait", b"1")
        threads[1].join(PATIENCE_S)
        assert waits["kept"] == 200
        with stalk["kept"] as made:
            kept.push("default", b"2")
            assert made.reply().word == "RESERVED"
        reload(server, tmp_path, "kept = nonsense", says="the config was not taken over")
        assert kept.get("/v1/stats").status == 200
        assert server.stop() == 0


# ---- what is told ----

def test_audit(tmp_path):
    with guarded(tmp_path, *STANDARD, flags=("--log-level", "error")) as server:
        admin = Holder(web_port(server), "admin")
        admin.push("t", b"x")
        admin.ask("PUT", "/v1/topics/t", '{"retries":3}')
        admin.post("/v1/topics/t/pause", **{"for": "10m", "what": "both"})
        admin.post("/v1/jobs/1/kick")
        admin.ask("DELETE", "/v1/topics/nobody%0aaudit:%20forged")
        Holder(admin.port, "eu").post("/v1/topics/t/purge")
        Holder(admin.port, "eu").post("/v1/topics/eu-t/purge")
        with client(server, "eu") as made:
            made.say("pause-tube eu-t 5")
        assert server.stop() == 0
        told = [text for text in server.said.splitlines() if text.startswith("audit")]
        assert told == ["audit: admin from 127.0.0.1: PUT /v1/topics/t: 200",
                        "audit: admin from 127.0.0.1: POST /v1/topics/t/pause?for=10m&what=both: 200",
                        "audit: admin from 127.0.0.1: POST /v1/jobs/1/kick: 409",
                        "audit: eu from 127.0.0.1: POST /v1/topics/eu-t/purge: 404",
                        "audit: eu from 127.0.0.1: beanstalk: pause-tube eu-t 5"]


def test_history_says_who(tmp_path):
    """Names of tokens, also after a restart with other tokens."""
    with guarded(tmp_path, line("shop", "produce"), line("work", "consume"), line("ops", "admin")) as server:
        port = web_port(server)
        made = Holder(port, "shop").push("t", b"x", delay="1h")["id"]
        Holder(port, "ops").post(f"/v1/jobs/{made}/fire")
        lease = Holder(port, "work").reserve("t")[0]["lease"]
        assert Holder(port, "work").post(f"/v1/jobs/{made}/ack", lease=lease).status == 200
        with client(server, "work") as worker:
            worker.say("watch t")
            other = Holder(port, "shop").push("t", b"y")["id"]
            assert worker.reserve() == (int(other), b"y")
        assert server.stop() == 0
    with guarded(tmp_path, line("new", "admin"), line("work", "consume")) as server:
        web = Holder(web_port(server), "new")
        events = web.get(f"/v1/jobs/{made}/history").json["events"]
        assert [(event["why"], event["by"]) for event in events] == [
            ("pushed", "shop"), ("changed", "ops"), ("due", "server"), ("handed out", "work"), ("acked", "work")]
        web.ask("DELETE", f"/v1/jobs/{other}")
        events = web.get(f"/v1/jobs/{other}/history").json["events"]
        assert [(event["why"], event["by"]) for event in events][:2] == [
            ("pushed", "shop"), ("handed out", "work")]
        assert (events[-1]["why"], events[-1]["by"]) == ("cancelled", "new")
        assert server.stop() == 0


def test_audit_as_json(tmp_path):
    with guarded(tmp_path, *STANDARD, flags=("--log-json",)) as server:
        Holder(web_port(server), "admin").post("/v1/topics/t/pause")
        assert server.stop() == 0
        told = [json.loads(text) for text in server.said.splitlines() if '"audit"' in text]
        assert len(told) == 1
        del told[0]["time"]
        assert told[0] == {"level": "info", "audit": True, "token": "admin", "from": "127.0.0.1",
                           "status": 200,
                           "msg": "admin from 127.0.0.1: POST /v1/topics/t/pause: 200"}


def test_tokens_are_told_nowhere(tmp_path):
    """Neither they nor their digests: not in the config, the figures, errors or the log."""
    with guarded(tmp_path, *STANDARD, flags=("--log-level", "debug")) as server:
        port = web_port(server)
        admin = Holder(port, "admin")
        said = b""
        for path, method, about in operations(admin):
            if about["operationId"] not in ("classic_get", "clock_advance"):
                for name in (*ROLES, "eu"):
                    said += Holder(port, name).ask(method, sample(path)).body
        tokens = admin.get("/v1/config").json["tokens"]
        assert tokens[0] == {"name": "read", "role": "read", "topics": "*", "from": "file",
                             "file": str(tmp_path / "tarry.conf"), "line": 5}
        assert tokens[5]["role"] == "read+produce+consume"
        said += Holder(port, token=secret("admin")[:-1]).get("/v1/stats").body
        with client(server, "admin") as made:
            said += made.ask("stats").body
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("config read again")
        assert server.stop() == 0
        everything = said.decode() + server.said
        for name in (*ROLES, "eu"):
            assert secret(name)[6:40] not in everything
            assert hashlib.sha256(secret(name).encode()).hexdigest()[:20] not in everything


# ---- the config ----

def refused(tmp_path, text, *flags, env=None):
    config = tmp_path / "bad.conf"
    config.write_text(text)
    done = tarry("serve", "--data", tmp_path / "s", "--config", config, "--http", "off", "--beanstalk",
                 "127.0.0.1:0", *flags, env=env)
    assert done.returncode == 2 and not done.stdout
    return done.stderr


def test_bad_tokens_in_the_config(tmp_path):
    digest = "0" * 64
    for bad, says in ((f"a = reader * sha256:{digest}", r"bad\.conf:2: the token \"a\" has a role"),
                      ("a = read *", r"bad\.conf:2: the token \"a\" has to be ROLE PATTERN"),
                      ("a = read * hunter2", r"bad\.conf:2: the token \"a\" has to be"),
                      (f"-a = read * sha256:{digest}", "name that is not allowed"),
                      (f"a = read * sha256:{digest}\na = read * sha256:{digest}", r"bad\.conf:3.*twice"),
                      (f"a = read * sha256:{digest}\nb = read * sha256:{digest}", "the same token as"),
                      (f"a = read * sha256:{digest} # why", "has to be"),
                      (f"a = read {'x,' * 600} sha256:{digest}", "longer than"),
                      ("a", "no key = value")):
        said = refused(tmp_path, f"[tokens]\n{bad}\n")
        assert re.search(says, said), said
        assert "hunter2" not in said and digest not in said
    assert "twice" in refused(tmp_path, "", *["--set", f"tokens.a=read * sha256:{digest}"] * 2)


def test_tokens_from_flags_and_environment(tmp_path):
    import os
    digest = {name: hashlib.sha256(secret(name).encode()).hexdigest() for name in ("f", "e", "c")}
    config = tmp_path / "t.conf"
    config.write_text(f"[tokens]\nc = read * sha256:{digest['c']} ; by hand\ne = read x sha256:{'1' * 64}\n"
                      "[log]\nlevel = info\n")
    os.environ["TARRY_TOKENS_E"] = f"admin * sha256:{digest['e'].upper()}"
    try:
        with web_server(tmp_path / "s", "--config", str(config), "--set",
                        f"tokens.f=read t*,u sha256:{digest['f']}") as server:
            port = web_port(server)
            for name in "fec":
                status = Holder(port, name).get("/v1/stats").status
                assert status == (403 if name == "f" else 200)
            told = {t["name"]: (t["role"], t["topics"], t["from"])
                    for t in Holder(port, "e").get("/v1/config").json["tokens"]}
            assert told == {"c": ("read", "*", "file"), "e": ("admin", "*", "environment"),
                            "f": ("read", "t*,u", "flag")}
            assert server.stop() == 0
    finally:
        del os.environ["TARRY_TOKENS_E"]


def test_listening_for_others_needs_a_token(tmp_path):
    for flag in ("--beanstalk", "--http"):
        done = tarry("serve", "--data", tmp_path / "s", flag, "0.0.0.0:0")
        assert done.returncode == 2
        assert "other machines can reach" in done.stderr and "tarry token new" in done.stderr
    with web_server(tmp_path / "s", "--insecure", "--beanstalk", "0.0.0.0:0") as server:
        server.ready()
        assert "whoever gets there" in server.said
        assert server.stop() == 0
    with guarded(tmp_path, line("a", "admin"), flags=("--beanstalk", "0.0.0.0:0")) as server:
        server.ready()
        assert "whoever gets there" not in server.said and "there is no TLS" in server.said
        assert server.stop() == 0


# ---- browsers ----

def test_foreign_pages(server):
    port = server.web
    admin = Holder(port, "admin")
    own = f"http://127.0.0.1:{port}"
    for headers, status in (({"Sec-Fetch-Site": "cross-site"}, 403), ({"Origin": "https://evil.example"}, 403),
                            ({"Origin": "null"}, 403), ({"Origin": own + "0"}, 403),
                            ({"Origin": "http://127.0.0.1"}, 403), ({"Origin": own}, 201),
                            ({"Origin": own.replace("http:", "https:")}, 201),  # by a proxy that speaks TLS
                            ({"Sec-Fetch-Site": "none"}, 201),
                            ({"Sec-Fetch-Site": "same-origin", "Origin": own}, 201), ({}, 201)):
        answer = admin.ask("POST", "/v1/topics/t/jobs", b"x", headers)
        assert answer.status == status, headers
        assert not [name for name in answer.headers if name.lower().startswith("access-control")]
        assert admin.ask("GET", "/v1/stats", None, headers).status == 200
        assert admin.ask("GET", "/delete?id=999", None, headers).status == (404 if status == 201 else 403)
    beside = {"Sec-Fetch-Site": "same-site"}  # another port of this machine; with GET there is no Origin
    assert admin.ask("GET", "/delete?id=999", None, beside).status == 403
    assert admin.ask("GET", "/v1/stats", None, beside).status == 200
    assert admin.ask("OPTIONS", "/v1/jobs").status == 405
    assert Holder(port).ask("OPTIONS", "/v1/jobs").status == 401


def test_host(tmp_path, server):
    """With tokens any; without them only what cannot be another page's name."""
    head = "GET /v1/stats HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n"
    for host in ("evil.example", "localhost", "127.0.0.1:80"):
        assert talk(server.web, head.format(host, secret("read")).encode())[0].status == 200
    with web_server(tmp_path / "open", "--set", "http.hosts=Tarry.internal, b") as other:
        port = web_port(other)
        for host, status in (("evil.example", 421), ("localhost", 200), ("LOCALHOST:1", 200),
                             ("127.0.0.1", 200), ("127.0.0.1:99", 200), ("[::1]:80", 200), ("tarry.internal", 200),
                             ("b:80", 200), ("127.0.0.1.evil.example", 421), ("localhost.evil.example", 421),
                             ("2130706433", 421), ("0x7f.1", 421), ("", 421), ("evil.example:127.0.0.1", 421),
                             ("[evil]", 421)):
            assert talk(port, head.format(host, "x").encode())[0].status == status, host
        assert other.stop() == 0


# ---- tricks ----

def test_path_tricks(server):
    """What is refused by its path cannot be had by writing the path in another way."""
    eu, stranger = Holder(server.web, "eu"), Holder(server.web)
    Holder(server.web, "admin").push("us", b"theirs", key="k")
    tricks = ["/v1/topics/%75s", "/v1/topics/us/", "//v1/topics/us", "/v1//topics/us", "/v1/topics//us",
              "/v1/topics/eu-x/../us", "/v1/topics/eu-x/%2e%2e/us", "/v1/topics/eu-x%2f..%2fus", "/v1/./topics/us",
              "/v1/topics/us%00", "/v1/topics/us%00eu-", "/v1/topics/eu-%00us", "/v1/topics/us;eu-", "/V1/topics/us",
              "/v1/topics/us%2Fkeys%2Fk", "/healthz/../v1/topics/us", "/healthz/%2e%2e/v1/topics/us",
              "/healthz?/../v1/topics/us", "/v1/topics/us?topic=eu-x", "/v1/topics/us%3Feu-", "/healthz%2f..%2fv1",
              "/healthz;/v1/topics/us", "/v1/topics/us#eu-", "/v1/jobs?topic=us", "/v1/jobs?topic=%75s",
              "/v1/jobs?topic=eu-x&topic=us", "/v1/jobs?TOPIC=us", "/v1/topics/us%0d%0aX:%20y"]
    for path in tricks:
        sent = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n"
        answer = talk(server.web, sent.encode() + b"\r\n")[0]
        assert answer.status in (400, 401) or path.startswith("/healthz?"), (path, answer)
        answer = talk(server.web, f"{sent}Authorization: Bearer {eu.token}\r\n\r\n".encode())[0]
        assert answer.status in (400, 403, 404), (path, answer)
        assert b"theirs" not in answer.body and b'"us"' not in answer.body
    full = f"GET http://localhost/v1/topics/us HTTP/1.1\r\nHost: localhost\r\n"
    assert talk(server.web, full.encode() + b"\r\n")[0].status == 401
    assert stranger.get("/healthz").status == 200


def test_header_injection(server):
    admin = Holder(server.web, "admin")
    key = "a\r\nX-Evil: 1"
    assert admin.post("/v1/topics/t/jobs", b"x", key=key).status == 400
    made = admin.push("t", b"x", tag="ok")["id"]
    answer = admin.ask("GET", f"/v1/jobs/{made}", None, {"Accept": "application/octet-stream"})
    assert answer.body == b"x" and "X-Evil" not in answer.headers
    for header in (b"Authorization: Bearer x\r\n X-Evil: 1", b"Authorization : Bearer x", b"Host: a\r\nHost: b",
                   b"Content-Length: 1\r\nContent-Length: 2", b"Transfer-Encoding: chunked\r\nContent-Length: 3",
                   b"Authorization: Bearer a\x00b", b"Authorization: Bearer a\nX: y"):
        answer = talk(server.web, b"GET /v1/stats HTTP/1.1\r\nHost: localhost\r\n" + header + b"\r\n\r\n")[0]
        assert answer.status in (400, 401), header
        assert "X-Evil" not in answer.headers


def test_smuggled_requests_have_no_token(server):
    """What stands in the body of a request is no request."""
    inner = f"GET /v1/stats HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {secret('admin')}\r\n\r\n"
    sent = (f"POST /v1/topics/t/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(inner)}\r\n\r\n"
            f"{inner}GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    first, second = talk(server.web, sent.encode(), 2)
    assert (first.status, second.status) == (401, 200) and second.json["ok"] is True
    pair = (f"GET /v1/stats HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {secret('read')}\r\n\r\n"
            "GET /v1/stats HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert [answer.status for answer in talk(server.web, pair.encode(), 2)] == [200, 401]


def test_body_bombs(server):
    admin = Holder(server.web, "admin")
    deep = b"[" * 100_000 + b"]" * 100_000
    for path in ("/v1/jobs", "/v1/ack"):
        assert admin.post(path, deep).status in (400, 413)
    assert admin.ask("PUT", "/v1/topics/t", b'{"paused":' * 50_000 + b"1" + b"}" * 50_000).status in (400, 413)
    assert admin.ask("PATCH", "/v1/topics/t", json.dumps({"ttr": "9" * 100_000})).status == 400
    many = b"{" + b",".join(b'"k%d":1' % i for i in range(50_000)) + b"}"
    assert admin.ask("PUT", "/v1/topics/t", many).status == 400
    for encoding in ("gzip", "br", "identity, gzip"):
        answer = admin.ask("POST", "/v1/topics/t/jobs", b"x", {"Content-Encoding": encoding})
        assert answer.status == 415, encoding
    with raw(server.web) as wire:  # chunks of one byte with long extensions
        wire.sendall(b"POST /v1/topics/t/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
                     + secret("admin").encode() + b"\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            for _ in range(3000):
                wire.sendall(b"1;" + b"e" * 1000 + b"\r\nx\r\n")
            wire.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        answer = read_answer(wire.makefile("rb"))
        assert answer is None or answer.status in (400, 413)
    assert admin.get("/v1/stats").status == 200


# ---- tarry token ----

def test_token_new(tmp_path):
    done = tarry("token", "new", "--role", "produce+read", "--topics", "orders*,x", "--rate=2.5")
    token, config_line = done.stdout.splitlines()
    assert done.returncode == 0 and re.fullmatch(r"tarry_[0-9a-f]{64}", token)
    digest = hashlib.sha256(token.encode()).hexdigest()
    assert re.fullmatch(rf"read-produce-[0-9a-f]{{6}} = read\+produce orders\*,x sha256:{digest} rate:2\.5",
                        config_line)
    assert token not in done.stderr and "kill -HUP" in done.stderr
    other = json.loads(tarry("token", "new", "--role", "admin", "--topics", "*", "--name", "ops",
                             "--json").stdout)
    assert other["token"] != token and other["line"].startswith("ops = admin * sha256:")
    with guarded(tmp_path, config_line, other["line"]) as server:
        port = web_port(server)
        assert Holder(port, token=token).push("orders-1", b"x")["id"] == "1"
        assert Holder(port, token=token).post("/v1/topics/y/jobs", b"x").status == 403
        assert Holder(port, token=other["token"]).get("/v1/stats").status == 200
        assert server.stop() == 0
    for bad in (["new"], ["new", "--role", "admin"], ["new", "--role", "x", "--topics", "*"],
                ["new", "--role", "read", "--topics", "a b"], ["new", "--role", "read", "--topics", ""],
                ["new", "--role", "read", "--topics", "*", "--name", "a b"],
                ["new", "--role", "read", "--topics", "*", "--rate", "0"],
                ["new", "--role", "read", "--topics", "*", "more"], ["new", "--role"], ["old"], [], ["ls"],
                ["revoke"], ["revoke", "x"], ["ls", "--config", "x", "--role", "read"]):
        done = tarry("token", *bad)
        assert done.returncode == 2 and not done.stdout and done.stderr.startswith("tarry: "), bad


def test_token_ls_and_revoke(tmp_path):
    config = tmp_path / "real.conf"
    config.write_text("# mine\n[store]\nsync = never\n\n[tokens] ; who\n; the first\n" + line("a", "read")
                      + "   ; a comment\r\n" + line("b", "admin", "x,y*", "rate:7") + "\n\n# between\n"
                      + line("c", "consume", "z") + "\n[log]\nlevel = info\n")
    config.chmod(0o640)
    link = tmp_path / "link.conf"
    link.symlink_to("real.conf")
    done = tarry("token", "ls", "--config", link)
    assert done.returncode == 0 and "sha256" not in done.stdout
    assert [row.split() for row in done.stdout.splitlines()] == [
        ["NAME", "ROLE", "RATE", "TOPICS"], ["a", "read", "*"], ["b", "admin", "7", "x,y*"], ["c", "consume", "z"]]
    assert json.loads(tarry("token", "ls", "--json", "--config", link).stdout)[1] == {
        "name": "b", "role": "admin", "topics": "x,y*", "rate": 7.0}
    before = config.read_bytes()
    done = tarry("token", "revoke", "a", "--config", link)
    assert done.returncode == 0 and done.stdout == "revoked: a\n" and "kill -HUP" in done.stderr
    cut = (line("a", "read") + "   ; a comment\r\n").encode()
    assert config.read_bytes() == before.replace(cut, b"") and cut in before
    assert link.is_symlink() and config.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.conf", "real.conf"]
    before = config.read_bytes()
    for name in ("a", "nobody", "sync"):
        done = tarry("token", "revoke", name, "--config", link)
        assert done.returncode == 1 and "no token" in done.stderr
    assert config.read_bytes() == before
    done = tarry("token", "new", "--role", "admin", "--topics", "*", "--name", "d", "--config", link)
    assert done.returncode == 0
    added = done.stdout.splitlines()[1]
    assert config.read_bytes() == before.replace(b"[log]", added.encode() + b"\n[log]")
    assert tarry("token", "new", "--role", "admin", "--topics", "*", "--name", "d", "--config",
                 link).returncode == 1
    with web_server(tmp_path / "store", "--config", str(link)) as server:
        port = web_port(server)
        assert Holder(port, token=done.stdout.splitlines()[0]).get("/v1/stats").status == 200
        assert Holder(port, "a").get("/v1/stats").status == 401
        assert server.stop() == 0
    for name in "bcd":
        assert ("the last token" in tarry("token", "revoke", name, "--config", link).stderr) == (name == "d")
    assert tarry("token", "ls", "--config", link).stdout.count("\n") == 1
    empty = tmp_path / "empty.conf"
    empty.write_text("[log]\nlevel = info")
    assert tarry("token", "new", "--role", "read", "--topics", "*", "--name", "e", "--config",
                 empty).returncode == 0
    assert empty.read_text().startswith("[log]\nlevel = info\n\n[tokens]\ne = read * sha256:")
    assert tarry("token", "ls", "--config", tmp_path / "nothing").returncode == 1
    (tmp_path / "bad.conf").write_text("[tokens]\nx = hunter2\n")
    done = tarry("token", "ls", "--config", tmp_path / "bad.conf")
    assert done.returncode == 2 and "bad.conf:2" in done.stderr and "hunter2" not in done.stderr
