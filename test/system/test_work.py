"""tarry work: what commands get, what becomes of their jobs, leases, signals, a server that goes away."""
import contextlib
import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import threading
import time

import pytest

from harness import PATIENCE_S, TARRY, Server, tarry
from ports import free_port
from test_cli import Cli
from web import web_port, web_server


@pytest.fixture(scope="module")
def cli(tmp_path_factory):
    with web_server(tmp_path_factory.mktemp("work") / "store", "--sync", "never") as server:
        yield Cli(web_port(server))
        assert server.stop() == 0


class Worker(subprocess.Popen):
    """Is gone after `with`, whatever happens."""

    def __exit__(self, *args):
        if self.poll() is None:
            self.kill()
        super().__exit__(*args)


def start(cli, *args, **more):
    return Worker([TARRY, "work", *map(str, args)], env=cli.env, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=more.pop("stderr", subprocess.PIPE), text=True, **more)


def wait_until(what, seconds=PATIENCE_S):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.02)


def hear(worker, words):
    """Waits until it has said this: all it has said."""
    said = ""
    while words not in said:
        more = os.read(worker.stderr.fileno(), 65536) if select.select([worker.stderr], [], [], PATIENCE_S)[0] else b""
        assert more, f"no {words!r} in {said!r}"
        said += more.decode()
    return said


def states(cli, topic):
    return {job["id"]: job["state"] for job in cli.json("list", topic, "--all")["jobs"]}


def test_body_and_fields(cli):
    job = cli.web.push("env", b"line\n\x00\xff", key="k-1", tag="red", priority=7)
    done = subprocess.run([TARRY, "work", "env", "--max", "1", "--", "sh", "-c", "cat; env | grep ^TARRY_ | sort"],
                          env={**cli.env, "TARRY_TTL_MS": "old"}, capture_output=True)
    assert done.returncode == 0, done
    body, rest = done.stdout[:7], done.stdout[7:].decode()
    assert body == b"line\n\x00\xff"
    env = dict(line.split("=", 1) for line in rest.splitlines())
    wanted = {"TARRY_ID": job["id"], "TARRY_TOPIC": "env", "TARRY_KEY": "k-1", "TARRY_TAG": "red", "TARRY_PRIORITY": "7",
              "TARRY_ATTEMPT": "1", "TARRY_ATTEMPTS": "1", "TARRY_DUE": job["due"], "TARRY_DUE_MS": str(job["due_ms"]),
              "TARRY_SERVER": cli.env["TARRY_SERVER"], "TARRY_STATE": "reserved"}
    assert {key: env.get(key) for key in wanted} == wanted
    assert int(env["TARRY_LATE_MS"]) >= 0 and len(env["TARRY_LEASE"]) == 32
    assert "TARRY_TTL_MS" not in env  # the job has none
    assert b"env " + job["id"].encode() + b": done, exit 0 after " in done.stderr
    assert b"1 done, 0 to be retried, 0 buried, 0 lost." in done.stderr
    assert states(cli, "env") == {}


def test_exit_codes(cli):
    jobs = {code: cli.web.push("codes", str(code).encode(), backoff="1h")["id"] for code in (0, 1, 75, 100, 126)}
    done = cli.run("work", "codes", "-j", "3", "--drain", "--", "sh", "-c", 'exit "$(cat)"')
    assert done.returncode == 0, done
    assert states(cli, "codes") == {jobs[1]: "delayed", jobs[75]: "delayed", jobs[126]: "delayed", jobs[100]: "dead"}
    assert "1 done, 3 to be retried, 1 buried, 0 lost." in done.stderr
    assert re.search(rf"codes {jobs[75]}: to be retried, exit 75 after ", done.stderr)


def test_commands_that_finish_the_job_themselves(cli):
    for verb, how in (("ack", "acked or cancelled"), ("bury", "dead")):
        job = cli.web.push("selves", b"x")
        done = cli.run("work", "selves", "--max", "1", "--", TARRY, verb)
        assert done.returncode == 0 and f"selves {job['id']}: over already, {how} after " in done.stderr, done
        assert "0 done, 0 to be retried, 0 buried, 1 over already, 0 lost." in done.stderr
    cli.web.push("given", b"x")
    done = cli.run("work", "given", "--max", "1", "--", TARRY, "release", "--delay", "1h")
    assert "lost, another may do it again, its lease was lost" in done.stderr and " 1 lost." in done.stderr


def test_a_server_that_gives_no_jobs_says_why():
    no = {"error": {"code": "read_only", "message": "it only shows its store"}}
    for status in (501, 503, 429):
        with Silent((status, no)) as server:
            with start(server, "t", "--", "true") as worker:
                assert worker.wait(timeout=PATIENCE_S) == 1
                said = worker.stderr.read()
                assert f"{status}: it only shows its store" in said and "Is the server running" not in said, said


def test_several_at_a_time(cli, tmp_path):
    for _ in range(6):
        cli.web.push("par-a", b"x")
        cli.web.push("par-b", b"x")
    # The first ones wait for each other, however long a machine takes to start them.
    command = (f"cd {tmp_path}; mkdir $TARRY_ID; until [ -e all ] || [ $(ls | wc -l) -ge 4 ]; do sleep 0.1; done; "
               "ls -d [0-9]* | wc -l; touch all; sleep 0.3; rmdir $TARRY_ID")
    done = cli.run("work", "par-a", "par-b", "-j", "4", "--drain", "--", "sh", "-c", command)
    assert done.returncode == 0 and "12 done" in done.stderr
    assert max(map(int, done.stdout.split())) == 4


def test_lease_is_kept_alive(cli):
    job = cli.web.push("alive", b"x", ttr="3s", retries=0)
    done = cli.run("work", "alive", "--max", "1", "--", "sleep", "7")
    assert done.returncode == 0 and "1 done" in done.stderr, done
    assert states(cli, "alive") == {}
    whys = [event["why"] for event in cli.web.get(f"/v1/jobs/{job['id']}/history").json["events"]]
    assert whys[-1] == "acked" and "timeout" not in " ".join(whys)


def test_timeout(cli, tmp_path):
    job = cli.web.push("slow", b"x", backoff="1h")
    done = cli.run("work", "slow", "--max", "1", "--timeout", "300ms", "--", "sh", "-c",
                   f"sleep 600 & echo $! > {tmp_path}/pid; wait")
    assert done.returncode == 0 and "timeout" in done.stderr
    assert states(cli, "slow") == {job["id"]: "delayed"}
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: not os.path.exists(f"/proc/{pid}") or "State:\tZ" in open(f"/proc/{pid}/status").read())


def test_lost_lease_ends_the_command(cli):
    job = cli.web.push("lose", b"x", ttr="3s")
    with start(cli, "lose", "--max", "1", "--", "sleep", "60") as worker:
        wait_until(lambda: states(cli, "lose") == {job["id"]: "reserved"})
        cli.ok("cancel", job["id"], "--force")
        assert worker.wait(timeout=PATIENCE_S) == 0
        assert "1 lost" in worker.stderr.read()


def test_graceful_stop(cli, tmp_path):
    job = cli.web.push("stop", b"x")
    with start(cli, "stop", "--", "sh", "-c", f"touch {tmp_path}/began; sleep 1; echo finished") as worker:
        wait_until((tmp_path / "began").exists)
        later = cli.web.push("stop", b"y")
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(timeout=PATIENCE_S) == 0
        assert worker.stdout.read() == "finished\n"
        assert "stopping when 1 commands have ended" in worker.stderr.read()
    assert states(cli, "stop") == {later["id"]: "ready"} and job["id"] != later["id"]


def test_stopped_while_it_waits(cli):
    with start(cli, "nothing-here", "--", "true") as worker:
        wait_until(lambda: cli.json("stats")["waiting"] > 0)
        worker.send_signal(signal.SIGINT)
        assert worker.wait(timeout=PATIENCE_S) == 0
    wait_until(lambda: cli.json("stats")["waiting"] == 0)


def test_stopped_twice_gives_jobs_back(cli, tmp_path):
    job = cli.web.push("twice", b"x", backoff="1h")
    with start(cli, "twice", "--", "sh", "-c", f"touch {tmp_path}/began; sleep 600") as worker:
        wait_until((tmp_path / "began").exists)
        worker.send_signal(signal.SIGTERM)
        hear(worker, "stopping when 1 commands have ended")
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(timeout=PATIENCE_S) == 1
        said = worker.stderr.read()
        assert "to be retried, stopped after " in said and "timeout" not in said
    assert states(cli, "twice") == {job["id"]: "delayed"}


def test_command_may_use_the_lease_itself(cli):
    cli.web.push("self", b"x")
    done = cli.run("work", "self", "--max", "1", "--", TARRY, "touch", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["state"] == "reserved"


def test_json_log(cli):
    job = cli.web.push("log", b"x")
    done = cli.run("work", "log", "--max", "1", "--json", "--", "true")
    line = json.loads(done.stdout)
    assert (line["id"], line["outcome"], line["how"]) == (job["id"], "done", "exit 0")


def test_json_lines_stand_alone(cli):
    """What commands print goes to stderr then. (Found by a tester.)"""
    for _ in range(3):
        cli.web.push("alone", b"x")
    done = cli.run("work", "alone", "--drain", "--json", "--", "sh", "-c", "echo said; echo told >&2")
    assert [json.loads(line)["outcome"] for line in done.stdout.splitlines()] == ["done"] * 3
    assert done.stderr.count("said\n") == done.stderr.count("told\n") == 3


def test_a_job_without_attempts_left_is_dead_and_not_retried(cli):
    """(Found by a tester.)"""
    dead = cli.web.push("last", b"75", retries=0)["id"]
    late = cli.web.push("last", b"1", backoff="1h")["id"]
    done = cli.run("work", "last", "--drain", "--", "sh", "-c", 'exit "$(cat)"')
    assert states(cli, "last") == {dead: "dead", late: "delayed"}
    assert re.search(rf"last {dead}: dead, no attempts are left, exit 75 after ", done.stderr), done.stderr
    assert re.search(rf"last {late}: to be retried, exit 1 after ", done.stderr)
    assert "0 done, 1 to be retried, 1 dead, 0 buried, 0 lost." in done.stderr


def test_server_goes_away_and_comes_back(tmp_path):
    port = free_port()
    with Server(tmp_path / "store", "--http", f"127.0.0.1:{port}") as server:
        server.ready()
        cli = Cli(port)
        with start(cli, "away", "--max", "1", "--", "cat") as worker:
            wait_until(lambda: cli.json("stats")["waiting"] > 0)
            cli.web.close()
            assert server.stop() == 0
            hear(worker, "no jobs from the server")
            with Server(tmp_path / "store", "--http", f"127.0.0.1:{port}") as again:
                again.ready()
                Cli(port).web.push("away", b"hello")
                assert worker.wait(timeout=PATIENCE_S) == 0
                assert worker.stdout.read() == "hello"
                assert again.stop() == 0


class Silent:
    """A server that answers the first requests by what it is given, and then takes all and says nothing."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.heard = []
        self.held = []
        self.door = socket.create_server(("127.0.0.1", 0))
        self.env = {**os.environ, "TARRY_SERVER": f"http://127.0.0.1:{self.door.getsockname()[1]}"}
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                wire, _ = self.door.accept()
            except OSError:
                return
            self.held.append(wire)
            threading.Thread(target=self.serve, args=(wire,), daemon=True).start()

    def serve(self, wire):
        with contextlib.suppress(OSError):  # closed by the end of the test
            self.answer(wire)

    def answer(self, wire):
        asked = b""
        while part := wire.recv(65536):
            asked += part
            while b"\r\n\r\n" in asked:
                head, asked = asked.split(b"\r\n\r\n", 1)
                self.heard.append(head.split(b"\r\n")[0].decode())
                if self.answers:
                    status, body = self.answers.pop(0)
                    text = json.dumps(body).encode()
                    wire.sendall(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (status, len(text), text))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.door.close()
        for wire in self.held:
            wire.close()


LEASED = {"jobs": [{"id": "1", "lease": "0" * 32, "topic": "t", "attempts": 1, "late_ms": 0, "lease_ms": 1000, "body": ""}]}


def test_a_silent_server_is_not_waited_for():
    """A connection that is dead and does not say so: a touch without an answer, and the command is ended when its
    lease is over; so is the worker, though nothing can be told."""
    with Silent((200, LEASED)) as server, start(server, "t", "--max", "1", "--", "sleep", "600") as worker:
        assert worker.wait(timeout=PATIENCE_S) == 0
        said = worker.stderr.read()
        assert "its lease ran out" in said and "1 lost." in said, said
        assert any("/touch" in line for line in server.heard)


def test_a_silent_server_is_not_told_for_ever():
    with Silent((200, LEASED)) as server, start(server, "t", "--max", "1", "--", "true") as worker:
        assert worker.wait(timeout=PATIENCE_S) == 0
        assert "the server could not be told in time" in worker.stderr.read()


def test_a_token_that_was_taken_away_is_told():
    no = {"error": {"code": "forbidden", "message": "this token may not"}}
    with Silent((200, LEASED), (403, no)) as server, start(server, "t", "--max", "1", "--", "true") as worker:
        assert worker.wait(timeout=PATIENCE_S) == 0
        said = worker.stderr.read()
        assert "the token may not (403)" in said and "lease was lost" not in said
    with Silent((200, LEASED), (403, no)) as server, start(server, "t", "--max", "1", "--", "sleep", "600") as worker:
        assert worker.wait(timeout=PATIENCE_S) == 0
        assert "cannot be kept alive with this token" in worker.stderr.read()
        assert sum("/touch" in line for line in server.heard) == 1


def test_progress_line_on_a_terminal(cli):
    cli.web.push("tty", b"x")
    cli.web.push("tty", b"fail", backoff="1h")
    main, other = pty.openpty()
    process = subprocess.Popen([TARRY, "work", "tty", "--drain", "--", "sh", "-c", 'sleep 0.3; test "$(cat)" != fail'],
                               env=cli.env, stdin=subprocess.DEVNULL, stderr=other)
    os.close(other)
    said = b""
    try:
        while True:
            said += os.read(main, 4096)
    except OSError:
        pass
    os.close(main)
    assert process.wait(timeout=PATIENCE_S) == 0
    assert b"\r1 running, 0 done" in said and b"to be retried, exit 1" in said
    assert b": done, exit 0" not in said  # only what failed has a line
    assert b"1 done, 1 to be retried" in said


def test_wrong_usage(cli):
    for args in (["t"], [], ["t", "--"], ["t", "-j", "0", "--", "true"], ["t", "-j", "x", "--", "true"],
                 ["t", "--", "no-such-command-here"], ["t", "--timeout", "soon", "--", "true"], ["t", "-j"],
                 ["t", "--tag", "", "--", "true"]):
        done = cli.run("work", *args)
        assert done.returncode == 2, (args, done)
    gone = tarry("work", "t", "--server", "127.0.0.1:1", "--", "true")
    assert gone.returncode == 1 and "running" in gone.stderr
    said = tarry("work", "--help").stdout
    assert "exit codes: 0 " in said and said == tarry("help", "work").stdout
