"""completion, doctor, demo, top: each as people would use it."""
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import termios
import time

import pytest

from harness import PATIENCE_S, TARRY, tarry
from ports import free_port
from test_cli import Cli, on_terminal
from test_tls import Authority
from test_work import wait_until
from web import web_port, web_server


@pytest.fixture(scope="module")
def cli(tmp_path_factory):
    with web_server(tmp_path_factory.mktemp("tools") / "store", "--sync", "never") as server:
        yield Cli(web_port(server))
        assert server.stop() == 0


# ---- completion ----


def complete(tmp_path, *words):
    """What bash would offer for the last word."""
    (tmp_path / "tarry").exists() or (tmp_path / "tarry").symlink_to(TARRY)
    script = ("source <(tarry completion bash)\n"
              f"COMP_WORDS=({' '.join(repr(word) for word in words)})\nCOMP_CWORD={len(words) - 1}\n"
              "_tarry\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n")
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=tmp_path,
                          env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert done.stderr == ""
    return done.stdout.split()


def test_completion_of_bash(tmp_path):
    assert complete(tmp_path, "tarry", "re") == ["reschedule", "reserve", "release", "resume", "restore"]
    every = complete(tmp_path, "tarry", "")
    assert set(every) == set(re.findall(r"^  ([a-z]+)  +[a-z]", tarry("help").stdout.split("\nexamples:")[0], re.M))
    assert complete(tmp_path, "tarry", "push", "--de") == ["--delay"]
    assert "--data" in complete(tmp_path, "tarry", "serve", "--d")
    assert complete(tmp_path, "tarry", "help", "wor") == ["work"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_are_sound(shell, tmp_path):
    said = tarry("completion", shell).stdout
    assert "schedule" in said and "completion" in said
    if shutil.which(shell):
        (tmp_path / "script").write_text(said)
        assert subprocess.run([shell, "-n", tmp_path / "script"]).returncode == 0
    assert tarry("completion", "csh").returncode == 2


# ---- doctor ----


def test_doctor(cli, tmp_path):
    done = cli.run("doctor")
    assert done.returncode == (re.search(r"^bad ", done.stdout, re.M) is not None) and done.stderr == ""
    assert re.search(r"^ok    version +\S+, as this tool$", done.stdout, re.M)
    assert "disk room" in done.stdout and "open files" in done.stdout  # it is on this machine
    assert re.search(r"^note  durability +store.sync = never", done.stdout, re.M)
    assert "-> store.sync = always" in done.stdout
    found = {line["check"]: line for line in json.loads(cli.run("doctor", "--json").stdout)}
    assert found["ready"]["verdict"] == "ok" and found["backups"]["verdict"] == "note" and found["backups"]["todo"]
    assert tarry("doctor", "--server", "127.0.0.1:1").returncode == 1


def test_doctor_sees_what_is_bad(tmp_path):
    with web_server(tmp_path / "store", "--test-clock") as server:
        cli = Cli(web_port(server))
        job = cli.web.push("t", b"x")
        held = cli.web.reserve("t")[0]
        cli.ok("bury", job["id"], held["lease"])
        cli.web.push("t", b"x")
        server.process.send_signal(signal.SIGUSR1)  # drain
        server.wait_for("drain")
        done = cli.run("doctor", "--json")
        found = {line["check"]: line for line in json.loads(done.stdout)}
        assert done.returncode == 1
        assert found["ready"]["verdict"] == "bad" and found["clock"]["verdict"] == "note"
        assert found["dead jobs"]["verdict"] == "note" and found["consumers"]["verdict"] == "note"
        cli.web.close()
        assert server.stop() == 0


@pytest.mark.parametrize("days, verdict", [(2, "bad"), (10, "note"), (60, "ok")])
def test_doctor_reads_the_certificate(tmp_path, days, verdict):
    made = Authority(tmp_path, "authority")
    cert, key = made.sign("server", days=days)
    with web_server(tmp_path / "store", "--set", f"tls.cert={cert}", "--set", f"tls.key={key}") as server:
        address = f"https://localhost:{web_port(server)}"
        done = tarry("doctor", "--json", "--server", address, "--ca", made.cert)
        found = {line["check"]: line for line in json.loads(done.stdout)}
        assert found["certificate"]["verdict"] == verdict, done
        assert done.returncode == (verdict == "bad")
        unknown = tarry("doctor", "--server", address)
        assert unknown.returncode == 1 and "certificate" in unknown.stderr
        assert server.stop() == 0


def test_doctor_knows_what_is_open(tmp_path):
    """All addresses of IPv6 are no loopback, though they have no full stop; a port alone is."""
    try:
        socket.create_server(("::", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6")
    for address, verdict in (("[::]:0", "bad"), (":0", "ok")):
        with web_server(tmp_path / verdict, "--beanstalk", address, "--insecure") as server:
            cli = Cli(web_port(server))
            found = {line["check"]: line for line in json.loads(cli.run("doctor", "--json").stdout)}
            assert found["tokens"]["verdict"] == verdict
            cli.web.close()
            assert server.stop() == 0


# ---- demo ----


def test_demo_fast(tmp_path):
    done = tarry("demo", "--fast", env={**os.environ, "TMPDIR": str(tmp_path), "TARRY_STORE_PATH": "/nowhere"})
    assert (done.returncode, done.stderr) == (0, "")
    assert len(re.findall(r"placed, \d+\.\d\d: it closes in 30m unless it is paid$", done.stdout, re.M)) == 12
    paid = len(re.findall(r"paid: its time-out is cancelled$", done.stdout, re.M))
    closed = len(re.findall(r"closed: nobody paid; on time$", done.stdout, re.M))
    assert paid > 0 and closed > 0 and paid + closed == 12
    assert f"12 orders: {paid} paid in time, {closed} closed. None early" in done.stdout
    assert list(tmp_path.iterdir()) == []  # nothing is left behind


def test_demo_in_real_time(tmp_path):
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    done = tarry("demo", "--orders", "5", "--timeout", "1s", "--json", env=env)
    assert done.returncode == 0, done
    end = json.loads(done.stdout.splitlines()[-1])
    assert end["placed"] == 5 and end["early"] == 0 and end["paid"] + end["closed"] == 5
    assert tarry("demo", "--orders", "0").returncode == 2 and tarry("demo", "--timeout", "1ms").returncode == 2


def test_demo_can_be_stopped(tmp_path):
    process = subprocess.Popen([TARRY, "demo"], stdout=subprocess.PIPE, text=True,
                               env={**os.environ, "TMPDIR": str(tmp_path)})
    assert "placed" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=PATIENCE_S) == 1
    process.stdout.close()
    assert list(tmp_path.iterdir()) == []


# ---- top ----


def test_top_once(cli):
    cli.web.push("soon", b"x", delay="30m")
    said = cli.ok("top", "--once")
    assert "soon" in said and "due in the next hour: " in said and "\x1b" not in said
    assert max(map(len, said.splitlines())) <= 80
    assert re.search(r"^soon .* in (2[89]m\d\ds|29m|30m)$", said, re.M), said  # nothing is cut off
    no_terminal = cli.run("top")
    assert no_terminal.returncode == 2 and "--once" in no_terminal.stderr
    assert [topic["name"] for topic in json.loads(cli.ok("top", "--json"))["topics"]] == ["soon"]
    assert tarry("top", "--once", "--server", "127.0.0.1:1").returncode == 1


def test_top_shows_the_busiest_of_many(cli):
    for n in range(150):
        cli.web.push(f"far-{n}", b"x", delay="1d")
    for n in range(3):
        for _ in range(n + 2):
            cli.web.push(f"busy-{n}")
    shown = [line.split()[0] for line in cli.ok("top", "--once").splitlines() if re.match(r"(far|busy)-\d", line)]
    assert shown[:3] == ["busy-2", "busy-1", "busy-0"] and 90 < len(shown) <= 100 and len(set(shown)) == len(shown)
    said = cli.ok("top", "--once")
    assert re.search(r"and \d+ more", said)
    for name in {*shown, *(f"far-{n}" for n in range(150))}:  # others have this server, too
        assert cli.web.ask("DELETE", f"/v1/topics/{name}?force=true").status == 200


@pytest.fixture()
def tmux(tmp_path, cli):
    """A terminal of 80 columns and 24 lines: a function that gives it words, and one that looks."""
    if shutil.which("tmux") is None:
        pytest.skip("no tmux")
    name = ["tmux", "-S", str(tmp_path / "socket"), "-f", "/dev/null"]

    def ask(*words):
        return subprocess.run([*name, *words], capture_output=True, text=True, env={**cli.env, "LC_ALL": "C.UTF-8"}).stdout

    ask("new-session", "-d", "-x", "80", "-y", "24", "sh", "-c", f"{TARRY} top; echo status $?; stty -a | grep -c ' echo '; sleep 600")
    yield ask
    ask("kill-server")


def wait_for(ask, pattern):
    end = time.monotonic() + PATIENCE_S
    while True:
        screen = ask("capture-pane", "-p")
        if re.search(pattern, screen):
            return screen
        assert time.monotonic() < end, screen
        time.sleep(0.1)


def test_top_in_a_terminal(cli, tmux):
    for n in range(30):
        cli.web.push(f"topic-{n}", b"x", delay=f"{n * 2}m")
    screen = wait_for(tmux, r"and \d+ more")
    lines = screen.rstrip("\n").split("\n")
    assert len(lines) <= 24 and lines[0].startswith("tarry ") and lines[-1] == "q quits"
    assert "due in the next hour" in screen and "█" in screen
    tmux("resize-window", "-x", "60", "-y", "40")
    wide = wait_for(tmux, r"(?s)topic-\d.*topic-\d.*topic-\d.*topic-\d.*topic-\d.*topic-\d.*topic-\d.*topic-\d.*topic-\d.*topic-\d.*topic-\d.*topic-\d.*topic-\d.*topic-\d")
    assert max(map(len, wide.split("\n"))) <= 60
    tmux("send-keys", "q")
    after = wait_for(tmux, r"status 0\n1")  # the terminal echoes again,
    assert "due in the next hour" not in after  # and the screen is as it was


def test_top_without_a_server(cli):
    status, said = on_terminal(cli.env, "top", "--server", "127.0.0.1:1")
    assert status == 1 and "\x1b[?1049h" not in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_top_ends_by_a_signal(cli, number):
    """The terminal is left as it was: the other screen, echo and cursor."""
    main, other = pty.openpty()
    before = termios.tcgetattr(other)
    process = subprocess.Popen([TARRY, "top"], stdin=other, stdout=other, stderr=other, env={**cli.env, "TERM": "xterm"})
    said = b""
    try:
        while b"q quits" not in said:
            assert select.select([main], [], [], PATIENCE_S)[0], said
            said += os.read(main, 65536)
        assert not termios.tcgetattr(other)[3] & termios.ECHO
        process.send_signal(number)
        end = time.monotonic() + PATIENCE_S
        while process.poll() is None:
            assert time.monotonic() < end
            if select.select([main], [], [], 0.1)[0]:
                said += os.read(main, 65536)
        while select.select([main], [], [], 0)[0]:
            said += os.read(main, 65536)
        assert process.returncode == 0 and b"\x1b[?1049l" in said and b"\x1b[?25h" in said
        assert termios.tcgetattr(other) == before
    finally:
        process.kill()
        process.wait()
        os.close(main)
        os.close(other)


# ---- bench ----


def judge_bench(rows, names):
    assert [row["what"] for row in rows] == names
    push, take = rows
    assert push["done"] == take["done"] > 0 and push["failed"] == take["failed"] == 0
    assert 0 < push["p50_us"] <= push["p99_us"] <= push["max_us"]


def test_bench(tmp_path):
    with web_server(tmp_path / "store", "--sync", "never") as server:
        cli = Cli(web_port(server))
        judge_bench(cli.json("bench", "--seconds", "1", "-c", "4", "-p", "8"), ["push", "reserve + ack"])
        assert not [topic for topic in cli.json("topics")["topics"] if "bench" in topic["name"]]  # it cleans up
        port = f"beanstalk://127.0.0.1:{server.port()}"
        judge_bench(cli.json("bench", port, "--seconds", "1", "--body", "1"), ["push", "reserve + delete"])
        table = cli.ok("bench", port, "--seconds", "1", "-c", "1")
        assert re.match(r"WHAT +JOBS +A SECOND +P50 +P99 +MAX\npush ", table)
        assert sum(topic["ready"] + topic["reserved"] for topic in cli.json("topics")["topics"]) == 0
        cli.ok("pause", "x")
        assert "no TLS" in cli.run("bench", "https://127.0.0.1:1").stderr
        for args in (["-c", "0"], ["amqp://x"], ["-p", "1000"], ["a", "b"]):
            assert cli.run("bench", *args).returncode == 2, args
        cli.web.close()
        assert server.stop() == 0
    assert tarry("bench", "http://127.0.0.1:1").returncode == 1
    with web_server(tmp_path / "drained") as server:
        urls = f"http://127.0.0.1:{web_port(server)}", f"beanstalk://127.0.0.1:{server.port()}"
        server.process.send_signal(signal.SIGUSR1)
        server.wait_for("draining")
        for url, words in zip(urls, ("HTTP/1.1 503 Service Unavailable", "DRAINING")):
            done = tarry("bench", url, "--seconds", "1")
            assert done.returncode == 1 and f'refused, the first with "{words}"' in done.stderr, done
    wrong = tarry("bench", "beanstalk://127.0.0.1:1", env={**os.environ, "TARRY_TOKEN": "x"})
    assert wrong.returncode == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_bench_that_is_interrupted_cleans_up(tmp_path, number):
    with web_server(tmp_path / "store", "--sync", "never") as server:
        cli = Cli(web_port(server))
        for to in (f"http://127.0.0.1:{cli.web.port}", f"beanstalk://127.0.0.1:{server.port()}"):
            process = subprocess.Popen([TARRY, "bench", to, "--seconds", "600", "-c", "2"], env=cli.env,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            end = time.monotonic() + PATIENCE_S
            while cli.web.get("/v1/stats").json["ready"] < 10:
                assert time.monotonic() < end
                time.sleep(0.01)
            process.send_signal(number)
            _, said = process.communicate(timeout=PATIENCE_S)
            assert process.returncode == 1 and "interrupted" in said
            assert sum(topic["ready"] + topic["reserved"] for topic in cli.json("topics")["topics"]) == 0


@pytest.mark.skipif(shutil.which("beanstalkd") is None, reason="no beanstalkd")
def test_bench_of_beanstalkd(tmp_path):
    port = free_port()
    process = subprocess.Popen(["beanstalkd", "-l", "127.0.0.1", "-p", str(port)])
    try:
        wait_until(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0)
        judge_bench(json.loads(tarry("bench", f"beanstalk://127.0.0.1:{port}", "--seconds", "1", "--json").stdout),
                    ["push", "reserve + delete"])
    finally:
        process.kill()
        process.wait()
