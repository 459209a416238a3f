"""The tools that ask a server: each against a real one, and what they say when something is wrong."""
import json
import os
import pty
import re
import select
import socket
import subprocess
import time

import pytest

from harness import PATIENCE_S, TARRY, tarry
from web import Web, web_port, web_server

ASKING = ["push", "show", "history", "list", "reschedule", "cancel", "fire", "kick", "shift", "reserve", "ack",
          "release", "bury", "touch", "topics", "topic", "pause", "resume", "purge", "schedule", "stats",
          "forecast", "backup", "restore", "export", "doctor", "top"]
# Words with which each would do something.
WORDS = {"push": ["t", "x"], "show": ["1"], "history": ["1"], "list": [], "reschedule": ["1", "--delay", "1h"],
         "cancel": ["1"], "fire": ["1"], "kick": ["1"], "shift": ["--topic", "t", "--by", "1h"],
         "reserve": ["t"], "ack": ["1", "x"], "release": ["1", "x"], "bury": ["1", "x"], "touch": ["1", "x"],
         "topics": [], "topic": ["t"], "pause": ["t"], "resume": ["t"], "purge": ["t"], "schedule": [],
         "stats": [], "forecast": [], "backup": ["x"], "restore": [], "export": [], "doctor": [], "top": ["--once"]}


class Cli:
    """tarry with the address of one server in its environment."""

    def __init__(self, port, **env):
        self.web = Web(port)
        self.env = {key: value for key, value in os.environ.items() if not key.startswith("TARRY_")}
        self.env |= {"TARRY_SERVER": f"http://127.0.0.1:{port}", **env}

    def run(self, *args, **more):
        more.setdefault("stdin", None if "input" in more else subprocess.DEVNULL)
        if more["stdin"] is None:
            del more["stdin"]
        return tarry(*args, env=self.env, **more)

    def ok(self, *args, **more):
        """What it prints, when all is well."""
        done = self.run(*args, **more)
        assert (done.returncode, done.stderr) == (0, ""), (args, done)
        return done.stdout

    def json(self, *args, **more):
        return json.loads(self.ok(*args, "--json", **more))

    def table(self, *args, **more):
        """The rows of a table as dicts."""
        return rows(self.ok(*args, **more))


def rows(text):
    """A table as dicts: a cell begins where its title does, or ends there; it may be empty."""
    lines = text.splitlines()
    titles = [(found.start(), found.end(), found[0]) for found in re.finditer(r"\S+( \S+)*", lines[0])]
    table = []
    for line in lines[1:]:
        row = dict.fromkeys((title for _, _, title in titles), "")
        for cell in re.finditer(r"\S+( \S+)*", line):
            for start, end, title in titles:
                if cell.start() == start or cell.end() == end:
                    row[title] = cell[0]
        table.append(row)
    return table


@pytest.fixture(scope="module")
def cli(tmp_path_factory):
    with web_server(tmp_path_factory.mktemp("cli") / "store", "--sync", "never") as server:
        yield Cli(web_port(server))
        assert server.stop() == 0


@pytest.fixture(scope="module")
def still(tmp_path_factory):
    """A server whose clock stands still."""
    with web_server(tmp_path_factory.mktemp("still") / "store", "--test-clock", "--set",
                    "clock.start=2027-01-01T00:00:00Z") as server:
        yield Cli(web_port(server))
        assert server.stop() == 0


# ---- jobs ----


def test_push(cli):
    job = cli.json("push", "p", '{"order":42}', "--delay", "30m", "--key", "order-42", "--priority", "7", "--tag", "a b",
                   "--ttr=10s", "--ttl", "1h", "--retries", "-1", "--backoff", "4m,10m")
    assert (job["topic"], job["key"], job["state"], job["priority"]) == ("p", "order-42", "delayed", 7)
    assert (job["tag"], job["ttr_ms"], job["ttl_ms"], job["retries"]) == ("a b", 10000, 3600000, -1)
    assert cli.web.get(f"/v1/jobs/{job['id']}").json["body"] == '{"order":42}'
    row = cli.table("push", "p", "x", "--delay", "45m", "--key", "order-42")[0]
    assert row["ID"] == job["id"] and row["STATE"] == "delayed"
    assert re.fullmatch(r"in 4[45]m(\d+s)?", row["DUE"])
    taken = cli.run("push", "p", "x", "--key", "order-42", "--on-conflict", "error")
    assert taken.returncode == 1 and "409" in taken.stderr and "key" in taken.stderr


def test_push_bodies(cli, tmp_path):
    (tmp_path / "body").write_bytes(bytes(range(256)))
    whole = bytes(range(256))
    for args, stdin, wanted in ((["-"], b"in", b"in"), ([], b"piped", b"piped"), (["--body", "flag"], b"", b"flag"),
                                (["--file", str(tmp_path / "body")], b"", whole), ([], b"", b""),
                                (["--", "-x"], b"", b"-x"), ([""], b"no", b"")):
        done = subprocess.run([TARRY, "push", "bodies", *args, "--json"] if "--" not in args else
                              [TARRY, "push", "bodies", "--json", *args],
                              input=stdin, capture_output=True, env=cli.env)
        assert done.returncode == 0, done
        raw = subprocess.run([TARRY, "show", json.loads(done.stdout)["id"], "--raw"], capture_output=True, env=cli.env)
        assert raw.stdout == wanted, args
    twice = cli.run("push", "bodies", "x", "--body", "y")
    assert twice.returncode == 2 and "twice" in twice.stderr
    none = cli.run("push", "bodies", "--file", tmp_path / "none")
    assert none.returncode == 1 and "cannot be read" in none.stderr


def test_names_are_escaped(cli):
    job = cli.json("push", "a/b+c;(d)", "x", "--key", "50% & more/ü?", "--delay", "1h")
    assert cli.json("show", "a/b+c;(d)", "50% & more/ü?")["id"] == job["id"]
    assert cli.json("show", "--topic", "a/b+c;(d)", "--key", "50% & more/ü?")["id"] == job["id"]
    assert cli.json("show", "a/b+c;(d)", "--key", "50% & more/ü?")["id"] == job["id"]
    assert "50% & more/ü?" in cli.ok("show", job["id"])


def test_show(cli):
    job = cli.web.push("show", b"line one\nline two\x1b[2J", delay="30m", key="k")
    said = cli.ok("show", job["id"])
    assert re.search(rf"^id: +{job['id']}$", said, re.M)
    assert re.search(r"^due: .*, in (30m|29m\d+s)$", said, re.M)
    assert said.endswith("\n\nline one\nline two\x1b[2J\n")  # not a terminal: as it is
    assert cli.json("show", "show", "k")["body"] == "line one\nline two\x1b[2J"
    gone = cli.run("show", "999999999")
    assert (gone.returncode, gone.stdout) == (1, "") and "404" in gone.stderr
    assert cli.run("show", "nonsense").returncode == 2


def test_history(cli):
    job = cli.web.push("hist", b"x", delay="1h")
    cli.ok("fire", job["id"])
    table = cli.table("history", job["id"])
    assert (table[0]["STATE"], table[0]["WHY"]) == ("delayed", "pushed")
    assert table[-1]["STATE"] == "ready" and table[-1]["AFTER"]
    assert cli.json("history", job["id"])["events"][0]["why"] == "pushed"


def test_list_goes_through_pages(cli):
    ids = [cli.web.push("many", b"x", delay=f"{n + 10000}s")["id"] for n in range(1105)]
    assert [row["ID"] for row in cli.table("list", "many", "--all")] == ids
    whole = cli.json("list", "--topic", "many", "--limit", "1050")
    assert [job["id"] for job in whole["jobs"]] == ids[:1050] and whole["cursor"]
    assert [job["id"] for job in cli.json("list", "many", "--all")["jobs"]] == ids
    done = cli.run("list", "many")
    assert done.returncode == 0 and len(rows(done.stdout)) == 100 and "more" in done.stderr
    assert cli.json("list", "many", "--state", "dead") == {"jobs": [], "cursor": None}
    assert cli.ok("list", "many", "--state", "dead").startswith("ID ")
    assert cli.run("list", "many", "--topic", "other").returncode == 2
    assert cli.run("list", "many", "--all", "--limit", "5").returncode == 2


def test_reschedule(cli):
    job = cli.web.push("re", b"x", delay="1h", key="k", tag="t", ttl="1h")
    assert re.fullmatch(r"in (1h59m|2h)", cli.table("reschedule", job["id"], "--delay", "2h")[0]["DUE"])
    changed = cli.json("reschedule", "re", "k", "--at", "2099-01-01T00:00:00Z", "--priority", "3", "--body", 'a"\n',
                       "--tag", "null")
    assert (changed["due"], changed["priority"]) == ("2099-01-01T00:00:00.000Z", 3)
    shown = cli.json("show", job["id"])
    assert shown["body"] == 'a"\n' and "tag" not in shown
    assert cli.run("reschedule", job["id"]).returncode == 2
    assert cli.run("reschedule", job["id"], "--delay", "1 parsec").returncode == 2


def test_cancel(cli):
    job = cli.web.push("can", b"x", delay="1h", key="k")
    assert "delayed" in cli.ok("cancel", job["id"])
    again = cli.run("cancel", "can", "k")
    assert again.returncode == 1 and "404" in again.stderr
    held = cli.web.push("can", b"x")
    cli.web.reserve("can")
    assert cli.run("cancel", held["id"]).returncode == 1
    assert cli.json("cancel", held["id"], "--force") == {"cancelled": True, "was": "reserved"}


def test_bulks(cli):
    for n in range(5):
        cli.web.push("bulk", b"x", delay="1h", tag="odd" if n % 2 else "even")
    assert cli.ok("cancel", "--topic", "bulk", "--tag", "odd", "--dry-run") == "2 would be cancelled.\n"
    assert cli.ok("shift", "--topic", "bulk", "--by", "-30m") == "5 matched, 5 shifted.\n"
    assert re.fullmatch(r"in (29m\d+s|30m)", cli.table("list", "bulk")[0]["DUE"])
    assert cli.json("shift", "--topic", "bulk", "--to", "2099-01-01T00:00:00Z") == {"matched": 5, "done": 5, "more": False}
    assert cli.json("cancel", "--topic", "bulk", "--tag", "odd")["done"] == 2
    assert len(cli.table("list", "bulk")) == 3
    assert cli.json("kick", "--topic", "bulk")["done"] == 0
    assert cli.run("shift", "--topic", "bulk").returncode == 2


def test_counts_of_bulks(cli):
    """What is told before is what is done: reserved and dead ones match, and cannot be moved."""
    for n in range(6):
        cli.web.push("counts", b"x")
    held = cli.web.reserve("counts", count=6)
    for job in held[:5]:
        cli.ok("bury", job["id"], job["lease"])
    cli.web.push("counts", b"x", delay="1h")
    assert cli.ok("shift", "--topic", "counts", "--by", "1m", "--dry-run") == "1 would be shifted.\n"
    assert cli.ok("cancel", "--topic", "counts", "--dry-run") == "6 would be cancelled.\n"
    assert cli.ok("cancel", "--topic", "counts", "--limit", "2", "--dry-run").startswith("2 ")
    assert cli.ok("cancel", "--topic", "counts", "--state", "reserved", "--dry-run") == "0 would be cancelled.\n"
    assert cli.ok("kick", "--topic", "counts", "--dry-run") == "5 would be brought back.\n"
    assert cli.json("shift", "--topic", "counts", "--by", "1m", "--dry-run") == {"matched": 7, "done": 0, "would": 1, "more": False}
    assert cli.json("shift", "--topic", "counts", "--by", "1m")["done"] == 1
    assert cli.json("cancel", "--topic", "counts")["done"] == 6
    assert cli.run("shift", "--by", "1h").returncode == 2
    assert cli.run("cancel", "1", "--tag", "odd").returncode == 2
    assert cli.run("cancel").returncode == 2


def test_fire_and_kick(cli):
    job = cli.web.push("fk", b"x", delay="1h")
    assert cli.table("fire", job["id"])[0]["STATE"] == "ready"
    assert cli.run("fire", job["id"]).returncode == 1
    lease = cli.web.reserve("fk")[0]["lease"]
    assert cli.table("bury", job["id"], lease)[0]["STATE"] == "dead"
    assert cli.table("kick", job["id"])[0]["STATE"] == "ready"
    lease = cli.web.reserve("fk")[0]["lease"]
    cli.ok("bury", job["id"], "--lease", lease)
    assert cli.ok("kick", "--topic", "fk") == "1 matched, 1 brought back.\n"


# ---- leases ----


def test_reserve_and_ack(cli):
    assert cli.run("reserve", "none-here").returncode == 4
    empty = cli.run("reserve", "none-here", "--json", "--wait", "10ms")
    assert (empty.returncode, json.loads(empty.stdout)) == (4, {"jobs": []})
    job = cli.web.push("res", b'{"a":1}')
    row = cli.table("reserve", "res")[0]
    assert (row["ID"], row["TOPIC"], row["BODY"]) == (job["id"], "res", '{"a":1}')
    assert "done" in cli.ok("ack", row["ID"], row["LEASE"])
    late = cli.run("ack", row["ID"], row["LEASE"])
    assert late.returncode == 1 and "404" in late.stderr
    cli.web.push("res2", b"x")
    cli.web.push("res", b"y")
    assert len(cli.json("reserve", "res", "res2", "--count", "10")["jobs"]) == 2
    assert cli.run("reserve", "res,res2").returncode == 4


def test_release_touch_bury(cli):
    job = cli.web.push("lease", b"x")
    lease = cli.json("reserve", "lease", "--ttr", "90s")["jobs"][0]["lease"]
    assert cli.json("touch", job["id"], lease)["lease_ms"] > 80_000
    row = cli.table("release", job["id"], lease, "--delay", "1h", "--priority", "5")[0]
    assert row["STATE"] == "delayed" and row["PRIORITY"] == "5"
    lost = cli.run("touch", job["id"], lease)
    assert lost.returncode == 1 and "lease" in lost.stderr
    cli.ok("fire", job["id"])
    lease = cli.json("reserve", "lease")["jobs"][0]["lease"]
    # What a command of `tarry work` has in its environment.
    done = tarry("ack", env={**cli.env, "TARRY_ID": job["id"], "TARRY_LEASE": lease})
    assert done.returncode == 0, done.stderr
    for args in ([], ["1"], ["x", "y"], ["1", "a", "b"], ["1", "a", "--lease", "b"]):
        assert cli.run("ack", *args).returncode == 2


# ---- topics ----
    free = cli.web.push("later", b"x", delay="1h")["id"]
    assert cli.run("bury", free).returncode == 2 and cli.run("bury", free, "x", "--force").returncode == 2
    assert cli.json("bury", free, "--force")["state"] == "dead"
    again = cli.run("bury", free, "--force")
    assert again.returncode == 1 and "dead" in again.stderr


def test_topics(cli):
    cli.web.push("tops", b"x", delay="30m")
    row = next(row for row in cli.table("topics") if row["TOPIC"] == "tops")
    assert row["DELAYED"] == "1" and re.match(r"in (30m|29m)", row["NEXT"])
    assert "tops" in [topic["name"] for topic in cli.json("topics")["topics"]]


def test_topic(cli):
    said = cli.ok("topic", "pol", "set", "ttr=10s", "retries=7", "backoff=4m,10m", "rate=2.5")
    assert re.search(r"^ttr: +10 s$", said, re.M) and re.search(r"^rate: +2.5$", said, re.M)
    policy = cli.json("topic", "pol")["policy"]
    assert (policy["ttr_ms"], policy["retries"], policy["backoff"], policy["rate"]) == (10000, 7, "4m,10m", 2.5)
    assert cli.json("topic", "pol", "set", "rate=null")["policy"].get("rate") is None
    assert cli.json("topic", "pol", "replace", "ttr=5")["policy"]["retries"] == 16
    assert re.search(r"^paused: +both until ", cli.ok("pause", "pol", "--what", "both", "--for", "10m"), re.M)
    assert re.search(r"^paused: +no$", cli.ok("resume", "pol"), re.M)
    cli.web.push("pol", b"x")
    full = cli.run("topic", "pol", "delete")
    assert full.returncode == 1 and "409" in full.stderr
    assert cli.ok("topic", "pol", "delete", "--force") == "deleted, with 1 job.\n"
    assert cli.run("topic", "pol").returncode == 1
    for args in (["pol", "set"], ["pol", "set", "ttr"], ["pol", "paint"], ["pol", "show", "x"], ["pol", "--force"]):
        assert cli.run("topic", *args).returncode == 2, args
    bad = cli.run("topic", "pol", "set", "colour=red")
    assert bad.returncode == 2 and "colour" in bad.stderr


def test_purge(cli):
    for _ in range(3):
        cli.web.push("pur", b"x", delay="1h")
    cli.web.push("pur", b"x")
    assert cli.ok("purge", "pur", "--state", "ready") == "1 deleted.\n"
    assert cli.json("purge", "pur", "--yes") == {"purged": 3}


def test_forecast(still):
    for n in range(30):
        still.web.push("fc", b"x", delay=f"{n}m")
    table = still.table("forecast", "fc", "--for", "1h", "--step", "10m")
    assert [row["JOBS"] for row in table[:-1]][1:3] == ["10", "10"]
    assert sum(step["count"] for step in still.json("forecast", "--for", "1h")["steps"]) == 29
    assert "in 10m" in [row["DUE"] for row in table[:-1]]  # by the clock of the server, which stands still
    assert still.run("forecast", "--for", "1h", "--to", "2028-01-01T00:00:00Z").returncode == 2
    assert still.run("forecast", "--for", "soon").returncode == 2


def test_durations_are_by_the_clock_of_the_server(still):
    job = still.web.push("dur", b"x", delay="30m")
    assert still.table("list", "dur")[0]["DUE"] == "in 30m"
    still.web.post("/v1/clock/advance", by="2s")
    assert still.table("list", "dur")[0]["DUE"] == "in 29m58s"
    assert "in 29m58s" in still.ok("show", job["id"])


# ---- schedules, stats ----


def test_schedule(still):
    said = still.table("schedule", "set", "report", "--topic", "mail", "--cron", "0 9 * * *", "--tz", "Asia/Shanghai",
                       "--body", "report", "--limit", "3", "--retries", "2")
    assert (said[0]["NAME"], said[0]["WHEN"]) == ("report", "0 9 * * * Asia/Shanghai")
    assert still.json("schedule", "show", "report")["limit"] == 3
    assert len(still.table("schedule", "next", "report", "-n", "2")) == 2
    assert still.table("schedule")[0]["NAME"] == "report"
    assert still.json("schedule", "list")["schedules"][0]["name"] == "report"
    assert still.table("schedule", "run", "report")[0]["TOPIC"] == "mail"
    assert "paused" in still.ok("schedule", "pause", "report")
    assert "paused" not in still.ok("schedule", "resume", "report")
    assert still.ok("schedule", "delete", "report").startswith("deleted")
    assert still.json("schedule")["schedules"] == []
    paint = still.run("schedule", "paint")
    assert paint.returncode == 2 and "not \"paint\"" in paint.stderr
    for args in (["paint", "x"], ["show"], ["list", "x"], ["show", "x", "--cron", "@daily"], ["show", "x", "-n", "2"],
                 ["set", "x", "--topic", "t", "--cron", "0 25 * * *"]):
        assert still.run("schedule", *args).returncode == 2, args


def test_stats(cli):
    said = cli.ok("stats")
    assert re.search(r"^topics: +\d+$", said, re.M) and "on disk" in said
    assert cli.json("stats")["pid"] > 0


# ---- what can go wrong ----


@pytest.mark.parametrize("command", ASKING)
def test_help_has_two_examples_and_exit_codes(command):
    done = tarry(command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == tarry("help", command).stdout
    for part in (f"usage: tarry {command}", "--server URL", "--token TOKEN", "--json", "--help", "exit codes: 0 "):
        assert part in done.stdout
    assert len(re.search(r"examples:\n((?:  .*\n)+)", done.stdout)[1].splitlines()) >= 2
    assert all(len(line) <= 100 for line in done.stdout.splitlines())
    assert re.search(rf"^  {command} ", tarry("help").stdout, re.M)


@pytest.mark.parametrize("command", ASKING)
def test_no_server(command):
    done = tarry(command, *WORDS[command], "--server", "127.0.0.1:1", stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("tarry: no answer from http://127.0.0.1:1/") and "running" in done.stderr


@pytest.mark.parametrize("command", ASKING)
def test_wrong_usage(command):
    for args in (["--nonsense"], ["--server"], ["--server", "ftp://x", *WORDS[command]],
                 ["--token", "a b", *WORDS[command]], ["--token", "", *WORDS[command]]):
        done = tarry(command, *args, stdin=subprocess.DEVNULL)
        assert (done.returncode, done.stdout) == (2, ""), args
        assert done.stderr.startswith("tarry: "), done.stderr


def test_usual_flags_before_the_command(cli):
    where = cli.env["TARRY_SERVER"]
    for args in (["--server", where, "--json", "stats"], [f"--server={where}", "stats", "--json"]):
        assert json.loads(tarry(*args).stdout)["pid"] > 0
    away = tarry("--server", "127.0.0.1:1", "push", "t", "x")
    assert away.returncode == 1 and "127.0.0.1:1" in away.stderr
    for args in (["--server", where], ["--server"], ["--json"], ["--server", where, "version"], ["--json", "paint"],
                 ["--delay", "1h", "push", "t", "x"], ["--json", "check", "x"]):
        done = tarry(*args)
        assert (done.returncode, done.stdout) == (2, "") and done.stderr.startswith("tarry: "), (args, done)


def test_server_addresses_that_are_none():
    """An empty variable counts as not set; what is wrong is said. (Found by a tester.)"""
    bare = {key: value for key, value in os.environ.items() if not key.startswith("TARRY_")}
    done = tarry("stats", "--server", "127.0.0.1:1", env={**bare, "TARRY_SERVER": "", "TARRY_TOKEN": "", "TARRY_CA": ""})
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        1, "tarry: no answer from http://127.0.0.1:1/v1/stats: Couldn't connect to server.")
    for server in ("http://", "https://", "http:///", "http://:11301", "", "/", "http://?x", "@host"):
        done = tarry("stats", "--server", server, env=bare)
        assert (done.returncode, done.stdout) == (2, ""), server
        assert "TARRY_SERVER) takes an address such as http://127.0.0.1:11301" in done.stderr, done.stderr
    assert "no host" in tarry("stats", env={**bare, "TARRY_SERVER": "http://"}).stderr
    for server in ("http://me:SECRET@127.0.0.1:1", "ftp://me:SECRET@127.0.0.1", "http://me:a@SECRET@127.0.0.1:1",
                   "http://me:a/SECRET@127.0.0.1:1", "http://me:SECRET?a@127.0.0.1:1"):
        done = tarry("stats", "--server", server, env=bare)
        assert done.returncode in (1, 2) and "SECRET" not in done.stderr and "***@127.0.0.1" in done.stderr, done.stderr


def test_a_server_that_does_not_speak_http(tmp_path):
    with web_server(tmp_path / "store") as server:
        done = tarry("topics", "--server", f"127.0.0.1:{server.port()}")
        assert done.returncode == 1 and "does not speak HTTP" in done.stderr and "11300" in done.stderr, done


def test_a_password_in_the_address_is_not_shown(cli):
    for words in (["stats"], ["top", "--once"]):
        done = cli.run(*words, "--server", cli.env["TARRY_SERVER"].replace("://", "://me:SECRET@"))
        assert done.returncode == 0 and "SECRET" not in done.stdout + done.stderr and "***@127.0.0.1" in done.stdout


def test_a_server_that_never_answers_is_given_up():
    """It accepts, and nothing comes: after 30 s, or that much after the wait that was asked for."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        address = f"127.0.0.1:{deaf.getsockname()[1]}"
        began = time.monotonic()
        calls = [subprocess.Popen([TARRY, *words, "--server", address], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                 for words in (["stats"], ["push", "t", "x"], ["reserve", "t", "--wait", "5s"])]
        try:
            for call, least in zip(calls, (29, 29, 34)):
                out, said = call.communicate(timeout=least + 40)
                assert (call.returncode, out) == (1, ""), said
                assert said.startswith(f"tarry: no answer from http://{address}/v1/") and "nothing came in time" in said
                assert time.monotonic() - began >= least
        finally:
            for call in calls:
                if call.poll() is None:
                    call.kill()


def test_json_of_commands_that_had_none(cli, tmp_path):
    version = json.loads(tarry("version", "--json").stdout)
    assert tarry("version").stdout == f"tarry {version['version']}\nstore format {version['store_format']}\n"
    assert "--json" in tarry("help", "version").stdout == tarry("version", "--help").stdout
    cli.web.push("seen", b"x")
    cli.web.push("seen", b"x", delay="10m")
    for words in (["top", "--once"], ["top"]):
        told = cli.json(*words)
        assert set(told) == {"stats", "topics", "matched", "forecast"} and told["stats"]["pid"] > 0
        names = [topic["name"] for topic in told["topics"]]
        assert "seen" in names and len(names) == len(set(names)) <= told["matched"]
        assert sum(step["count"] for step in told["forecast"]["steps"]) >= 1
    conf = tmp_path / "tarry.conf"
    assert tarry("token", "new", "--role", "read", "--topics", "*", "--name", "a", "--config", conf).returncode != 0
    conf.write_text("")
    for name in "ab":
        assert tarry("token", "new", "--role", "read", "--topics", "*", "--name", name, "--config", conf).returncode == 0
    assert json.loads(tarry("token", "revoke", "a", "--config", conf, "--json").stdout) == {"revoked": "a", "left": 1}
    done = cli.run("show", "1", "--raw", "--json")
    assert (done.returncode, done.stdout) == (2, "") and "--raw" in done.stderr
    done = tarry("sql", "check", "--json")
    assert done.returncode == 2 and "where is the database" in done.stderr
    assert tarry("sql", "migrate", "--print", "--json").returncode == 2


def test_relative_times_cost_no_errors(cli):
    """Whether the clock stands still is asked of a route that always answers. (Found by a tester.)"""
    def errors():
        return re.findall(r'tarry_http_replies_total\{code="[45]..".*', cli.web.get("/metrics").body.decode())

    job = cli.web.push("later", b"x", delay="10m")["id"]
    before = errors()
    assert " in 9m" in cli.ok("show", job) or " in 10m" in cli.ok("show", job)
    cli.ok("list", "later")
    assert errors() == before
    assert cli.web.get("/v1/clock").status == 501 and errors() != before


def test_missing_and_double_words():
    for args in (["push"], ["push", ""], ["topic"], ["reserve"], ["show"], ["show", "1", "2", "3"], ["list", "--limit", "0"],
                 ["list", "--limit"], ["push", "t", "--delay", "1", "--delay", "2"], ["push", "t", "--delay", "--at"],
                 ["topics", "x"], ["list", "--all=yes"]):
        done = tarry(*args, stdin=subprocess.DEVNULL)
        assert done.returncode == 2 and f"Try: tarry {args[0]} --help" in done.stderr, (args, done)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server with a token, which is in the environment of none."""
    token, line = tarry("token", "new", "--role", "admin", "--topics", "*", "--name", "boss").stdout.splitlines()
    name, value = line.split(" = ", 1)
    with web_server(tmp_path_factory.mktemp("guarded") / "store", "--set", f"tokens.{name}={value}") as server:
        yield Cli(web_port(server)), token
        assert server.stop() == 0


@pytest.mark.parametrize("command", ASKING)
def test_wrong_token(guarded, command):
    cli, _ = guarded
    for more in ([], ["--token", "tarry_wrong"]):
        done = cli.run(command, *WORDS[command], *more)
        assert (done.returncode, done.stdout) == (1, "")
        assert re.search("the server says (401|403|429)", done.stderr) and "TARRY_TOKEN" in done.stderr or "429" in done.stderr


def test_right_token(guarded):
    cli, token = guarded
    assert cli.run("topics", "--token", token).returncode == 0
    assert tarry("push", "t", "x", env={**cli.env, "TARRY_TOKEN": token}, stdin=subprocess.DEVNULL).returncode == 0


def test_closed_pipe(cli):
    for n in range(300):
        cli.web.push("pipe", b"x", delay="1h", key="k" * 200 + str(n))
    for more in ([], ["--json"]):
        process = subprocess.Popen([TARRY, "list", "pipe", "--all", *more], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=cli.env)
        process.stdout.close()
        assert process.wait(timeout=PATIENCE_S) == 1
        assert process.stderr.read() == b""  # whoever closed it knows
        process.stderr.close()
    with open("/dev/full", "w") as full:
        done = subprocess.run([TARRY, "topics"], stdout=full, stderr=subprocess.PIPE, env=cli.env)
    assert done.returncode == 1 and b"could not be written" in done.stderr


def test_commands_of_other_engines(cli):
    for args in (["restore"], ["restore", "7"], ["restore", "--bury"]):
        done = cli.run(*args)
        assert (done.returncode, done.stdout) == (1, ""), done
        assert "nothing to restore from" in done.stderr
    assert cli.run("restore", "7", "--bury").returncode == 2
    assert "tarry serve --data" in tarry("help", "restore").stdout


# ---- terminals ----


def on_terminal(env, *args, answer=None, **more):
    """Runs tarry on a terminal: (exit status, what it wrote)."""
    main, other = pty.openpty()
    process = subprocess.Popen([TARRY, *map(str, args)], stdin=other, stdout=other, stderr=other,
                               env={**env, "TERM": "xterm", **more})
    os.close(other)
    said = b""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if answer is not None and b"[y/N]" in said:
            os.write(main, answer)
            answer = None
        ready, _, _ = select.select([main], [], [], 1)
        try:
            part = os.read(main, 65536) if ready else b""
        except OSError:
            break
        if ready and not part:
            break
        said += part
    os.close(main)
    return process.wait(timeout=PATIENCE_S), said.decode()


def test_colours_on_a_terminal_only(cli):
    cli.web.push("col", b"x" * 300, delay="1h", key="k" * 200)
    status, said = on_terminal(cli.env, "list", "col")
    assert status == 0 and "\x1b[36mdelayed\x1b[0m" in said
    plain = re.sub(r"\x1b\[\d*m", "", said)
    assert max(map(len, plain.splitlines())) == 80 and "k…" in plain  # cut at the edge
    status, said = on_terminal(cli.env, "list", "col", NO_COLOR="1")
    assert status == 0 and "\x1b" not in said
    assert "\x1b" not in cli.ok("list", "col") and "k" * 200 in cli.ok("list", "col")


def test_bodies_do_no_harm_to_a_terminal(cli):
    job = cli.web.push("evil", b"\x1b[2Jgone\nnext\x9b", key="k")
    status, said = on_terminal(cli.env, "show", job["id"], NO_COLOR="1")
    assert status == 0 and "\\x1b[2Jgone\r\nnext\\x9b" in said and "\x1b" not in said


def test_a_terminal_is_asked(cli):
    cli.web.push("ask", b"x", delay="1h")
    assert on_terminal(cli.env, "purge", "ask", answer=b"n\n")[0] == 1
    assert len(cli.json("list", "ask")["jobs"]) == 1
    assert on_terminal(cli.env, "cancel", "--topic", "ask", answer=b"\n")[0] == 1
    assert on_terminal(cli.env, "purge", "ask", answer=b"y\n")[0] == 0
    assert cli.json("list", "ask")["jobs"] == []
    cli.web.push("ask", b"x", delay="1h")
    for words in (["shift", "--topic", "ask", "--by", "1h"], ["kick", "--topic", "ask"], ["topic", "ask", "delete", "--force"]):
        assert on_terminal(cli.env, *words, answer=b"n\n")[0] == 1, words
    status, said = on_terminal(cli.env, "shift", "--topic", "ask", "--by", "1h", answer=b"y\n")
    assert status == 0 and "1 jobs would be shifted: --topic ask. Go on? [y/N]" in said and "1 matched, 1 shifted." in said
    assert on_terminal(cli.env, "kick", "--topic", "ask", "--yes")[0] == 0
    assert on_terminal(cli.env, "cancel", "--topic", "ask", "--yes")[0] == 0
    assert cli.json("list", "ask")["jobs"] == []
    assert on_terminal(cli.env, "topic", "ask", "delete", "--force", "--yes")[0] == 0
