"""tarry export | tarry import, and import from a beanstalkd and from Redis."""
import json
import shutil
import socket
import subprocess
import time

import pytest

from harness import PATIENCE_S, tarry
from test_cli import Cli
from web import web_port, web_server


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


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
    said = new.json("import", "--beanstalk", f"127.0.0.1:{new.beanstalk}", input=lines)
    assert (said["pushed"], said["refused"], said["buried"], said["schedules"]) == (4, 0, 1, 1)
    before, after = facts(old), facts(new)
    for was, now in zip(before, after, strict=True):
        if "due_ms" in was:
            assert 0 <= now.pop("due_ms") - was.pop("due_ms") <= 1  # never earlier
        assert now == was
    assert new.json("topic", "orders")["policy"]["rate"] == 50
    schedule = new.json("schedule", "show", "report")
    assert (schedule["cron"], schedule["jitter_ms"], schedule["paused"]) == ("0 9 * * *", 2000, True)
    again = new.json("import", "--beanstalk", f"127.0.0.1:{new.beanstalk}", input=lines)
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


def test_import_tells_what_was_refused(two):
    _, new = two
    lines = '{"topic":"-","body":"x"}\n\n{"topic":"t","body":"y"}\n'
    done = new.run("import", input=lines)
    assert done.returncode == 1 and done.stderr.startswith("tarry: 1: refused: ")
    assert done.stdout == "1 jobs imported, 1 were refused.\n"
    for args in (["--from", "amqp://x"], ["--from", "beanstalkd://"], ["--from", "redis-zset://h:1"], ["a", "b"],
                 ["x", "--from", "beanstalkd://127.0.0.1:1"], ["--from", "beanstalkd://127.0.0.1:1", "--keep"]):
        assert new.run("import", *args).returncode == 2, args
    assert new.run("import", "/no/such/file").returncode == 1
    assert new.run("import", "--from", "beanstalkd://127.0.0.1:1").returncode == 1


def test_import_is_fast(two, tmp_path):
    """A million a minute: 50,000 in 3 s, with time to spare on a busy machine."""
    _, new = two
    (tmp_path / "many").write_text("".join(json.dumps({"topic": "many", "body": "x" * 100, "at": 4102444800000}) + "\n"
                                           for _ in range(50000)))
    began = time.monotonic()
    assert new.json("import", tmp_path / "many")["pushed"] == 50000
    took = time.monotonic() - began
    print(f"{50000 / took:.0f} a second")
    assert took < 30
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
    talk(wire, b"put 5 3600 60 5\r\nlater\r\n")
    talk(wire, b"put 5 0 60 4\r\ngrim\r\n")
    talk(wire, b"watch mail\r\n")
    talk(wire, b"ignore default\r\n")
    number = talk(wire, b"reserve\r\n").split()[1]
    assert talk(wire, b"bury %s 5\r\n" % number) == b"BURIED\r\n"
    talk(wire, b"put 5 0 60 4\r\nheld\r\n")
    talk(wire, b"reserve\r\n")
    url = f"beanstalkd://127.0.0.1:{port}"
    dry = new.run("import", "--from", url, "--dry-run")
    assert dry.returncode == 0 and dry.stdout.endswith("702 jobs would be imported.\n"), dry
    done = new.run("import", "--from", url, "--beanstalk", f"127.0.0.1:{new.beanstalk}", "--json")
    assert done.returncode == 0, done
    said = json.loads(done.stdout)
    assert (said["pushed"], said["buried"], said["refused"]) == (702, 1, 0)
    assert "consumers have 1 jobs" in done.stderr
    assert new.json("topic", "default")["ready"] == 700
    jobs = {job["state"]: new.json("show", job["id"]) for job in new.json("list", "mail")["jobs"]}
    assert (jobs["delayed"]["body"], jobs["delayed"]["priority"], jobs["delayed"]["ttr_ms"]) == ("later", 5, 60000)
    assert 3590000 < jobs["delayed"]["due_ms"] - jobs["delayed"]["created_ms"] <= 3600000
    assert jobs["dead"]["body"] == "grim"
    left = talk(wire, b"stats\r\n").decode()
    assert "current-jobs-ready: 0" in left and "current-jobs-delayed: 0" in left and "current-jobs-buried: 0" in left
    assert "current-jobs-reserved: 1" in left


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
        wrong = new.run("import", "--from", f"redis-zset://127.0.0.1:{port}/q")
        assert wrong.returncode == 1 and "NOAUTH" in wrong.stderr
        ask("SET", "text", "x")
        assert new.run("import", "--from", f"{base}/text").returncode == 1
    finally:
        process.kill()
        process.wait()
