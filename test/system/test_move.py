"""tarry export | tarry import, and import from a beanstalkd and from Redis."""
import json
import re
import shutil
import socket
import subprocess
import threading
import time

import pytest

from harness import PATIENCE_S, TARRY, tarry
from ports import free_port
from test_cli import Cli
from web import web_port, web_server


@pytest.fixture()
def two(tmp_path):
    """Two servers, and their beanstalk ports."""
    with web_server(tmp_path / "a", "--sync", "never") as a, web_server(tmp_path / "b", "--sync", "never") as b:
        first, second = Cli(web_port(a)), Cli(web_port(b))
        first.beanstalk, second.beanstalk = a.port(), b.port()
        yield first, second
        assert (a.stop(), b.stop()) == (0, 0)


def facts(cli):
    """All jobs, without what differs from server to server."""
    found = []
    for row in cli.json("list", "--all")["jobs"]:
        job = cli.json("show", row["id"])
        for name in ("id", "created_ms", "attempts", "late_ms", "dead_ms", "due"):
            job.pop(name, None)
        if job["state"] != "delayed":
            job.pop("due_ms")
        found.append(job)
    return sorted(found, key=lambda job: (job["topic"], job.get("body", ""), job["state"]))


def test_export_and_import(two):
    old, new = two
    old.web.push("orders", b'{"order":42}', delay="30m", key="order-42", tag="red", ttl="1h", ttr="10s", retries=3,
                 backoff="4m,10m", priority=7)
    old.web.push("orders", "ü\n".encode(), delay="2h")
    old.web.push("bytes", b"\x00\xff")
    old.web.push("graves", b"dead one", key="k")
    held = old.web.reserve("graves")[0]
    old.ok("bury", held["id"], held["lease"])
    old.ok("topic", "orders", "set", "ttr=15s", "rate=50")
    old.ok("schedule", "set", "report", "--topic", "mail", "--cron", "0 9 * * *", "--body", "x", "--jitter", "2s")
    old.ok("schedule", "pause", "report")
    lines = old.ok("export")
    said = new.json("import", input=lines)
    assert (said["pushed"], said["refused"], said["buried"], said["schedules"]) == (4, 0, 1, 1)
    before, after = facts(old), facts(new)
    for was, now in zip(before, after, strict=True):
        if "due_ms" in was:
            assert 0 <= now.pop("due_ms") - was.pop("due_ms") <= 1  # never earlier
        assert now == was
    assert new.json("topic", "orders")["policy"]["rate"] == 50
    schedule = new.json("schedule", "show", "report")
    assert (schedule["cron"], schedule["jitter_ms"], schedule["paused"]) == ("0 9 * * *", 2000, True)
    again = new.json("import", input=lines)
    assert again["kept"] == 2  # those with keys


def test_export_of_a_topic_and_offline_lines(two, tmp_path):
    old, new = two
    for n in range(5):
        old.web.push("one", str(n).encode(), delay="1h")
        old.web.push("two", str(n).encode(), delay="1h")
    rows = [json.loads(line) for line in old.ok("export", "--topic", "one").splitlines()]
    assert sorted(row["body"] for row in rows if "body" in row) == ["0", "1", "2", "3", "4"]
    assert {row["topic"] for row in rows} == {"one"}
    (tmp_path / "file").write_text(old.ok("export"))
    assert new.ok("import", tmp_path / "file", "--dry-run").startswith("10 jobs would be imported")
    assert new.json("list", "--all")["jobs"] == []
    assert new.ok("import", tmp_path / "file").startswith("10 jobs imported")
    assert old.run("export", "--json").returncode == 0


def test_export_of_a_stopped_store(tmp_path):
    with web_server(tmp_path / "a") as server:
        cli = Cli(web_port(server))
        cli.web.push("t", b"x", delay="1h", key="k")
        cli.web.close()
        assert server.stop() == 0
    lines = tarry("export", tmp_path / "a").stdout
    with web_server(tmp_path / "b") as server:
        cli = Cli(web_port(server))
        assert cli.json("import", input=lines)["pushed"] == 1
        assert cli.json("show", "t", "k")["body"] == "x"
        cli.web.close()
        assert server.stop() == 0


def test_import_goes_on_where_it_was_cut_short(two, tmp_path):
    _, new = two
    rows = [json.dumps({"topic": "t", "body": str(n), "at": 4102444800000}) for n in range(12000)]
    (tmp_path / "cut").write_text("\n".join(rows[:11000]) + "\n" + rows[11000][:10])
    cut = new.run("import", tmp_path / "cut", "--state", tmp_path / "state")
    assert cut.returncode == 1 and "line 11001" in cut.stderr
    (tmp_path / "whole").write_text("\n".join(rows) + "\n")
    said = new.json("import", tmp_path / "whole", "--state", tmp_path / "state")
    assert said["pushed"] == 1000 and not (tmp_path / "state").exists()
    assert new.json("topic", "t")["delayed"] == 12000
    (tmp_path / "state").write_text("nonsense")
    assert new.run("import", tmp_path / "whole", "--state", tmp_path / "state").returncode == 2


def test_import_that_cannot_note_how_far_it_has_come_pushes_nothing(two, tmp_path):
    _, new = two
    (tmp_path / "file").write_text('{"topic":"unnoted","body":"x"}\n')
    done = new.run("import", tmp_path / "file", "--state", tmp_path / "none" / "state")
    assert done.returncode == 1 and "cannot be written" in done.stderr and "0 jobs" in done.stdout + done.stderr
    assert new.json("list", "unnoted")["jobs"] == []


def test_import_tells_what_was_refused(two):
    _, new = two
    lines = '{"topic":"-","body":"x"}\n\n{"topic":"t","body":"y"}\n'
    done = new.run("import", input=lines)
    assert done.returncode == 1 and done.stderr.startswith("tarry: 1: refused: ")
    assert done.stdout == "1 job imported, 1 was refused.\n"
    for args in (["--from", "amqp://x"], ["--from", "beanstalkd://"], ["--from", "redis-zset://h:1"], ["a", "b"],
                 ["x", "--from", "beanstalkd://127.0.0.1:1"], ["--from", "beanstalkd://127.0.0.1:1", "--keep"]):
        assert new.run("import", *args).returncode == 2, args
    assert new.run("import", "/no/such/file").returncode == 1
    assert new.run("import", "--from", "beanstalkd://127.0.0.1:1").returncode == 1


def far(job):
    """Is it one that waits to be buried?"""
    return job["due_ms"] - job["created_ms"] > 99 * 365 * 86_400_000


def test_the_dead_keep_their_priority(two):
    _, new = two
    line = json.dumps({"topic": "graves", "body": "x", "state": "dead", "priority": 7, "key": "k"}) + "\n"
    assert new.json("import", input=line)["buried"] == 1
    job = new.json("show", "graves", "k")
    assert (job["state"], job["priority"], job["attempts"]) == ("dead", 7, 0)


def test_dead_ones_that_may_not_be_buried_stop_it(two, tmp_path):
    """Nothing is passed over in silence, and with a state file nothing comes twice."""
    _, new = two
    rows = [{"topic": "t", "body": "1"}, {"topic": "t", "body": "2", "state": "dead"}, {"topic": "t", "body": "3"}]
    (tmp_path / "file").write_text("".join(json.dumps(row) + "\n" for row in rows))
    args = ["import", tmp_path / "file", "--state", tmp_path / "state"]
    lines = []
    for role in ("read+produce", "produce"):
        said = tarry("token", "new", "--role", role, "--topics", "*", "--name", role.replace("+", "-")).stdout
        lines.append(said)
    tokens = [re.search(r"^(\S{20,})$", said, re.M)[1] for said in lines]
    (tmp_path / "conf").write_text("[tokens]\n" + "".join(
        re.search(r"^.* = .*sha256:.*$", said, re.M)[0] + "\n" for said in lines))
    with web_server(tmp_path / "c", "--sync", "never", "--config", str(tmp_path / "conf")) as server:
        cli = Cli(web_port(server))
        cut = cli.run(*args, "--token", tokens[0])
        assert cut.returncode == 1 and "--skip-dead" in cut.stderr, cut
        assert (tmp_path / "state").read_text() == "lines 1\n"
        # One that may not ask what it may do learns it at the job, which does not stay.
        late = cli.run(*args, "--token", tokens[1], "--json")
        assert late.returncode == 1 and json.loads(late.stdout)["not_buried"] == 1, late
        jobs = json.loads(cli.run("list", "t", "--json", "--token", tokens[0]).stdout)["jobs"]
        assert [job["state"] for job in jobs] == ["ready", "ready"]
    skipped = new.json("import", tmp_path / "file", "--skip-dead")
    assert (skipped["pushed"], skipped["not_buried"]) == (2, 1)


def test_dead_with_a_key(two):
    """Replaced by a dead one, a job is dead, not due in a hundred years; what a run that was cut off left is buried."""
    _, new = two
    args = ["import"]
    new.web.push("t", b"live", key="a", delay="10m")
    new.web.push("t", b"cut", key="b", delay="36500d")
    lines = "".join(json.dumps({"topic": "t", "key": key, "state": "dead", "body": "dead"}) + "\n" for key in "ab")
    said = new.json(*args, input=lines)
    assert (said["kept"], said["buried"]) == (2, 1)
    assert (new.json("show", "t", "a")["state"], new.json("show", "t", "a")["body"]) == ("delayed", "live")
    assert new.json("show", "t", "b")["state"] == "dead"
    new.json(*args, "--on-conflict", "replace", input=lines)
    for key in "ab":
        assert (new.json("show", "t", key)["state"], new.json("show", "t", key)["body"]) == ("dead", "dead")
    new.json(*args, "--on-conflict", "keep", input=lines)
    assert not any(far(job) and job["state"] == "delayed" for job in new.json("list", "t")["jobs"])


def test_policies_come_whole_and_take_nothing_away(two):
    old, new = two
    outlet = {"type": "webhook", "url": "https://shop.example/x", "timeout": "3s"}
    for cli, topic, policy in ((old, "plain", {"paused": "both", "deliver": outlet}),
                               (old, "until", {"paused": {"what": "out", "until": 4102444800000}}),
                               (old, "secret", {"rate": 5, "deliver": {**outlet, "secret": "k3y"}}),
                               (old, "other", {"retries": 3}),
                               (new, "other", {"rate": 9, "paused": "out", "deliver": {**outlet, "secret": "k3y"}})):
        assert cli.web.ask("PUT", f"/v1/topics/{topic}", json.dumps(policy)).status in (200, 201), topic
    done = new.run("import", input=old.ok("export"))
    assert done.returncode == 1 and "secret" in done.stderr and done.stderr.count("by hand") == 1, done
    policy = {name: new.json("topic", name)["policy"] for name in ("plain", "until", "secret", "other")}
    assert policy["plain"] == old.json("topic", "plain")["policy"]
    assert policy["plain"]["paused"] == "both" and policy["plain"]["deliver"]["timeout_ms"] == 3000
    assert policy["until"]["paused"]["what"] == "out"
    assert policy["secret"]["rate"] == 5 and "deliver" not in policy["secret"]
    assert (policy["other"]["retries"], policy["other"]["rate"], policy["other"]["paused"]) == (3, 9, "out")
    assert policy["other"]["deliver"]["secret_count"] == 1


def test_a_refused_policy_repeats_nothing(two, tmp_path):
    _, new = two
    rows = [{"topic": "t", "body": str(n)} for n in range(3)]
    rows += [{"topic": "t", "policy": {"ttr": "never"}}, {"schedule": {"topic": "t"}}, {"topic": "t", "body": "last"}]
    (tmp_path / "file").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for pushed in (4, 0, 0):
        done = new.run("import", tmp_path / "file", "--state", tmp_path / "state", "--json")
        assert (done.returncode, json.loads(done.stdout)["pushed"]) == (1, pushed)
        assert "2 lines are missing" in done.stderr
    assert new.json("topic", "t")["ready"] == 4
    first = new.run("import", tmp_path / "file", "--json")
    assert first.returncode == 1 and json.loads(first.stdout)["refused"] == 2
    assert "tarry: 4: refused: " in first.stderr


def test_import_cut_by_a_kill(two, tmp_path):
    """kill -9, and the same words again: nothing is missing, and with keys nothing comes twice."""
    _, new = two
    count = 30000
    (tmp_path / "file").write_text("".join(json.dumps({"topic": "k", "key": str(n), "body": "x", "at": 4102444800000}) + "\n"
                                           for n in range(count)))
    args = ["import", str(tmp_path / "file"), "--state", str(tmp_path / "state")]
    process = subprocess.Popen([TARRY, *args], env=new.env, stdout=subprocess.DEVNULL)
    end = time.monotonic() + PATIENCE_S
    while not (tmp_path / "state").exists() and process.poll() is None:
        assert time.monotonic() < end
        time.sleep(0.002)
    process.kill()
    process.wait()
    new.json(*args)
    assert new.json("topic", "k")["delayed"] == count and not (tmp_path / "state").exists()


def test_import_is_fast(two, tmp_path):
    """A million a minute is 50,000 in 3 s, on a quiet machine."""
    _, new = two
    (tmp_path / "many").write_text("".join(json.dumps({"topic": "many", "body": "x" * 100, "at": 4102444800000}) + "\n"
                                           for _ in range(50000)))
    before = new.web.get("/v1/stats").json["http_requests"]
    began = time.monotonic()
    assert new.json("import", tmp_path / "many")["pushed"] == 50000
    took = time.monotonic() - began
    print(f"{50000 / took:.0f} a second")
    asked = new.web.get("/v1/stats").json["http_requests"] - before
    assert asked < 1000  # a request for each would be slow anywhere
    began = time.monotonic()
    assert new.ok("export", "--topic", "many").count("\n") == 50001
    print(f"export: {50000 / (time.monotonic() - began):.0f} a second")


# ---- another queue ----


@pytest.fixture()
def beanstalkd():
    """Debian's beanstalkd on a free port: a socket to it."""
    port = free_port()
    process = subprocess.Popen(["beanstalkd", "-l", "127.0.0.1", "-p", str(port)])
    try:
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                wire = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
                break
            except OSError:
                assert time.monotonic() < end
                time.sleep(0.05)
        yield port, wire
        wire.close()
    finally:
        process.kill()
        process.wait()


def talk(wire, sent):
    wire.sendall(sent)
    return wire.recv(65536)


@pytest.mark.skipif(shutil.which("beanstalkd") is None, reason="no beanstalkd")
def test_from_beanstalkd(two, beanstalkd):
    _, new = two
    port, wire = beanstalkd
    for n in range(700):
        assert talk(wire, b"put 10 0 30 2\r\n%02d\r\n" % (n % 100)).startswith(b"INSERTED")
    talk(wire, b"use mail\r\n")
    began = time.monotonic()
    talk(wire, b"put 5 3600 60 5\r\nlater\r\n")
    talk(wire, b"put 5 0 60 4\r\ngrim\r\n")
    talk(wire, b"watch mail\r\n")
    talk(wire, b"ignore default\r\n")
    number = talk(wire, b"reserve\r\n").split()[1]
    assert talk(wire, b"bury %s 5\r\n" % number) == b"BURIED\r\n"
    talk(wire, b"put 5 0 3600 4\r\nheld\r\n")
    talk(wire, b"reserve\r\n")
    url = f"beanstalkd://127.0.0.1:{port}"
    dry = new.run("import", "--from", url, "--dry-run")
    assert dry.returncode == 0 and dry.stdout.endswith("702 jobs would be imported.\n"), dry
    done = new.run("import", "--from", url, "--json")
    assert done.returncode == 0, done
    said = json.loads(done.stdout)
    assert (said["pushed"], said["buried"], said["refused"]) == (702, 1, 0)
    assert "consumers have 1 jobs" in done.stderr
    assert new.json("topic", "default")["ready"] == 700
    jobs = {job["state"]: new.json("show", job["id"]) for job in new.json("list", "mail")["jobs"]}
    assert (jobs["delayed"]["body"], jobs["delayed"]["priority"], jobs["delayed"]["ttr_ms"]) == ("later", 5, 60000)
    took_ms = (time.monotonic() - began) * 1000
    assert 3598000 - took_ms < jobs["delayed"]["due_ms"] - jobs["delayed"]["created_ms"] <= 3600000
    assert jobs["dead"]["body"] == "grim"
    left = talk(wire, b"stats\r\n").decode()
    assert "current-jobs-ready: 0" in left and "current-jobs-delayed: 0" in left and "current-jobs-buried: 0" in left
    assert "current-jobs-reserved: 1" in left


@pytest.mark.skipif(shutil.which("beanstalkd") is None, reason="no beanstalkd")
def test_from_a_paused_tube_of_beanstalkd(two, beanstalkd):
    """People pause a tube before they move it. What came from there is retried without end, as there."""
    _, new = two
    port, wire = beanstalkd
    talk(wire, b"use mail\r\n")
    for n in range(3):
        assert talk(wire, b"put 5 0 60 1\r\n%d\r\n" % n).startswith(b"INSERTED")
    assert talk(wire, b"pause-tube mail 3600\r\n") == b"PAUSED\r\n"
    assert new.json("import", "--from", f"beanstalkd://127.0.0.1:{port}")["pushed"] == 3
    assert "current-jobs-ready: 0" in talk(wire, b"stats-tube mail\r\n").decode()
    jobs = [new.json("show", job["id"]) for job in new.json("list", "mail")["jobs"]]
    assert [(job["retries"], job["backoff"], job["priority"]) for job in jobs] == [(-1, "0s", 5)] * 3


@pytest.mark.skipif(shutil.which("beanstalkd") is None, reason="no beanstalkd")
def test_what_is_left_in_beanstalkd_is_told(two, beanstalkd):
    _, new = two
    port, wire = beanstalkd
    talk(wire, b"put 7 0 60 4\r\ngrim\r\n")
    number = talk(wire, b"reserve\r\n").split()[1]
    assert talk(wire, b"bury %s 7\r\n" % number) == b"BURIED\r\n"
    url = f"beanstalkd://127.0.0.1:{port}"
    assert new.json("import", "--from", url, "--skip-dead")["not_buried"] == 1
    assert new.json("import", "--from", url)["buried"] == 1
    job = new.json("show", new.json("list", "default")["jobs"][0]["id"])
    assert (job["state"], job["priority"], job["body"]) == ("dead", 7, "grim")


def play_beanstalkd(door):
    """One ready job, whose time runs out while it is held: the delete comes too late."""
    wire, _ = door.accept()
    stream = wire.makefile("rwb")
    given = False
    while line := stream.readline():
        word = line.split()[0]
        text = {b"list-tubes": b"---\n- default\n", b"stats-job": b"---\nid: 1\npri: 0\nttr: 1\n",
                b"stats-tube": b"---\nname: default\ncurrent-jobs-ready: %d\ncurrent-jobs-reserved: %d\n" % (not given, given)}
        if word in text:
            stream.write(b"OK %d\r\n%s\r\n" % (len(text[word]), text[word]))
        elif word == b"reserve-with-timeout" and not given:
            given = True
            stream.write(b"RESERVED 1 1\r\nx\r\n")
        else:
            stream.write({b"use": b"USING default", b"watch": b"WATCHING 1", b"ignore": b"WATCHING 1",
                          b"reserve-with-timeout": b"TIMED_OUT"}.get(word, b"NOT_FOUND") + b"\r\n")
        stream.flush()


def test_a_job_that_another_got_meanwhile_is_taken_back(two):
    _, new = two
    with socket.create_server(("127.0.0.1", 0)) as door:
        threading.Thread(target=play_beanstalkd, args=(door,), daemon=True).start()
        done = new.run("import", "--from", f"beanstalkd://127.0.0.1:{door.getsockname()[1]}", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["pushed"] == 0, done
    assert new.json("list", "--all")["jobs"] == []


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="no redis-server")
def test_from_redis(two, tmp_path):
    _, new = two
    port = free_port()
    process = subprocess.Popen(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "",
                                "--requirepass", "secret", "--dir", str(tmp_path)], stdout=subprocess.DEVNULL)
    redis = ["redis-cli", "-p", str(port), "-a", "secret", "--no-auth-warning"]

    def ask(*words):
        return subprocess.run([*redis, *words], capture_output=True, text=True).stdout.strip()

    try:
        end = time.monotonic() + PATIENCE_S
        while ask("PING") != "PONG":
            assert time.monotonic() < end
            time.sleep(0.05)
        ask("EVAL", "for i = 1, 1200 do redis.call('ZADD', KEYS[1], 4102444800 + i, 'job ' .. i) end", "1", "delayq")
        ask("ZADD", "ids", "4102444800500", "a", "1000", "b")
        ask("HSET", "bodies", "a", "body of a", "b", "body of b")
        base = f"redis-zset://:secret@127.0.0.1:{port}"
        assert new.json("import", "--from", f"{base}/delayq", "--dry-run")["pushed"] == 1200
        assert new.json("import", "--from", f"{base}/delayq", "--keep", "--topic", "copy")["pushed"] == 1200
        assert ask("ZCARD", "delayq") == "1200"
        assert new.json("import", "--from", f"{base}/delayq", "--topic", "q")["pushed"] == 1200
        assert ask("ZCARD", "delayq") == "0"
        first = new.json("list", "q", "--limit", "1")["jobs"][0]
        assert first["due_ms"] == 4102444801000 and new.json("show", first["id"])["body"] == "job 1"
        assert new.json("import", "--from", f"{base}/ids", "--hash", "bodies", "--topic", "h")["pushed"] == 2
        assert ask("HLEN", "bodies") == "0"
        jobs = {new.json("show", job["id"])["body"]: job for job in new.json("list", "h")["jobs"]}
        assert jobs["body of a"]["due_ms"] == 4102444800500 and jobs["body of b"]["state"] == "ready"
        assert jobs["body of a"]["key"] == "a" and "key" not in first
        ask("ZADD", "odd", "4102444800500", "tab\there", "4102444800501", "x" * 256)
        ask("HSET", "odd-bodies", "tab\there", "1", "x" * 256, "2")
        assert new.json("import", "--from", f"{base}/odd", "--hash", "odd-bodies", "--topic", "odd")["pushed"] == 2
        assert all("key" not in job for job in new.json("list", "odd")["jobs"])
        ask("ZADD", "ids", "4102444800500", "lost", "4102444800600", "c", "4102444800700", "e\x1b[2Jvil")
        ask("HSET", "bodies", "c", "body of c")
        holes = new.run("import", "--from", f"{base}/ids", "--hash", "bodies", "--topic", "holes", "--json")
        said = json.loads(holes.stdout)
        assert (holes.returncode, said["pushed"], said["refused"]) == (1, 1, 2) and "\x1b" not in holes.stderr
        assert ask("ZRANGE", "ids", "0", "-1").split("\n")[0] == "lost" and ask("ZCARD", "ids") == "2"
        ask("EVAL", "for i = 1, 300 do redis.call('ZADD', KEYS[1], 4102444800, i .. string.rep('x', 50000)) end", "1", "large")
        new.env["REDISCLI_AUTH"] = "secret"
        assert new.json("import", "--from", f"redis-zset://127.0.0.1:{port}/large")["pushed"] == 300
        assert ask("ZCARD", "large") == "0"
        del new.env["REDISCLI_AUTH"]
        wrong = new.run("import", "--from", f"redis-zset://127.0.0.1:{port}/q")
        assert wrong.returncode == 1 and "NOAUTH" in wrong.stderr
        ask("SET", "text", "x")
        assert new.run("import", "--from", f"{base}/text").returncode == 1
    finally:
        process.kill()
        process.wait()
