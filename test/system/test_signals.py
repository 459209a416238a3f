"""Signals and the service manager: stop, drain, reload, and what is told about them."""
import os
import resource
import select
import shutil
import signal
import socket
import subprocess
import time

import pytest

from client import Client
from harness import PATIENCE_S, STOP_S, TARRY, Server, sanitized, tool
from web import Web, raw, read_answer, web_port, web_server

MANY = 600 if sanitized() else 9000  # connections; those of HTTP that wait are a third of them
HEAD = b"Host: localhost\r\n"


class Manager:
    """The socket of a service manager, which hears what a server tells about itself."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.settimeout(PATIENCE_S)
        self.path = str(path)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def server(self, data, *flags, **more):
        env = {"NOTIFY_SOCKET": self.path, **more}
        before = ["env", *(f"{name}={value}" for name, value in env.items())]
        return Server(data, *flags, before=before)

    def hear(self):
        """The next message, as a dict."""
        return dict(line.split("=", 1) for line in self.socket.recv(4096).decode().split("\n"))

    def silent(self, seconds):
        return not select.select([self.socket], [], [], seconds)[0]


# ---- the service manager ----


def test_manager_hears_of_a_life(tmp_path):
    conf = tmp_path / "tarry.conf"
    conf.write_text("[limits]\nbody = 1k\n")
    with Manager(tmp_path / "notify") as manager:
        with manager.server(tmp_path / "store", "--config", str(conf)) as server:
            assert manager.hear() == {"STATUS": "opening the store"}
            assert manager.hear() == {"READY": "1", "STATUS": "serving"}
            server.ready()  # it is told when it is so
            for text, says in [("[limits]\nbody = 2k\n", "body is now 2k"), ("[limits]\nbody = x\n", "not taken")]:
                conf.write_text(text)
                before = time.clock_gettime(time.CLOCK_MONOTONIC) * 1e6
                server.process.send_signal(signal.SIGHUP)
                told = manager.hear()
                assert told.pop("RELOADING") == "1"
                assert before <= int(told.pop("MONOTONIC_USEC")) <= time.clock_gettime(
                    time.CLOCK_MONOTONIC) * 1e6
                assert told == {}
                assert manager.hear() == {"READY": "1"}  # after a mistake, too: it goes on as it was
                server.wait_for(says)
            server.process.send_signal(signal.SIGUSR1)
            assert manager.hear()["STATUS"].startswith("draining")
            assert manager.silent(0.1)
            assert server.stop() == 0
            assert manager.hear() == {"STOPPING": "1", "STATUS": "stopping"}
            assert manager.silent(0)


def test_watchdog_is_fed(tmp_path):
    with Manager(tmp_path / "notify") as manager:
        with manager.server(tmp_path / "store", WATCHDOG_USEC="200000") as server:
            while "READY" not in manager.hear():
                pass
            for _ in range(10):
                assert manager.hear() == {"WATCHDOG": "1"}
            # Twice in the time that is given; a busy machine may be late, but not early by much. Who is late in hearing
            # them hears them all at once, so it counts from before the first.
            assert time.monotonic() - server.started > 0.5
            assert server.stop() == 0


def test_start_that_fails_is_never_ready(tmp_path):
    (tmp_path / "file").write_text("")
    with Manager(tmp_path / "notify") as manager:
        with manager.server(tmp_path / "file") as server:
            assert server.ended() == 1
        while not manager.silent(0):
            assert "READY" not in manager.hear()


def test_manager_that_is_not_there(tmp_path):
    before = ["env", f"NOTIFY_SOCKET={tmp_path}/nobody"]
    with Server(tmp_path / "store", before=before) as server:
        server.ready()
        server.wait_for("warning: the socket of the service manager .NOTIFY_SOCKET. cannot be reached")
        assert server.stop() == 0


# ---- stop ----


def files_allowed(want):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return min(want, hard - 300)


def test_stop_with_ten_thousand_connections(tmp_path):
    """A third waits in long polls, a third in reserves, a third does nothing, one does not read and
    one holds a lease: nobody is waited for, and nothing that was answered is lost."""
    count = files_allowed(MANY)
    data = tmp_path / "store"
    with web_server(data, "--set", "limits.connections=20000", "--set", "limits.idle=1h") as server:
        port, bs_port = web_port(server), server.port()
        polls = [socket.create_connection(("127.0.0.1", port)) for _ in range(count // 3)]
        waiters = [Client(bs_port) for _ in range(count // 3)]
        idle = [Client(bs_port) for _ in range(count // 3)]
        for wire in polls:
            wire.settimeout(PATIENCE_S)
            wire.sendall(b"POST /v1/topics/t/reserve?wait=600s HTTP/1.1\r\n" + HEAD + b"\r\n")
        for client in waiters:
            client.send("reserve\r\n")
        with Client(bs_port) as one, Client(bs_port) as slow:
            web = Web(port)
            web.push("mine", b"x")
            job = web.reserve("mine", ttr="1h")[0]
            one.put(b"kept", delay=3600)
            big = one.put(b"y" * 60000, delay=3600)
            slow.send(f"peek {big}\r\n" * 300)  # 18 MB, of which it reads nothing
            end = time.monotonic() + PATIENCE_S
            while int(one.table("stats")["current-waiting"]) < 2 * (count // 3):
                assert time.monotonic() < end
            start = time.monotonic()
            assert server.stop() == 0
            took = time.monotonic() - start
            print(f"stop connections={3 * (count // 3)} seconds={took:.2f}")
            assert took < STOP_S
        answers = [read_answer(wire.makefile("rb")) for wire in polls]
        assert {answer.status for answer in answers} == {204}
        for client in waiters[::100] + idle[::100]:
            with pytest.raises((EOFError, ConnectionResetError)):
                client.more()
        for wire in [*polls, *(client.socket for client in waiters + idle)]:
            wire.close()
    with web_server(data) as server:
        web = Web(web_port(server))
        assert web.get(f"/v1/jobs/{job['id']}").json["state"] == "reserved"
        assert web.post(f"/v1/jobs/{job['id']}/ack", lease=job["lease"]).status == 200
        assert web.get(f"/v1/jobs/{big}").status == 200
        assert server.stop() == 0


def test_second_signal_changes_nothing(tmp_path):
    with Server(tmp_path / "store", "--set", "limits.body=1MiB") as server:
        with Client(server.port()) as client:
            client.put(b"x" * 1000000)
            client.send("peek 1\r\n" * 200)
            time.sleep(0.2)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
                server.process.send_signal(number)
            assert server.stop() == 0


@pytest.mark.skipif(shutil.which("strace") is None or sanitized(), reason="no strace")
def test_stop_during_a_long_start(tmp_path):
    """Each read of the store takes 0.3 s, so that the start would take long: it is given up, by a
    signal at any time, and the store is none the worse for it."""
    data = tmp_path / "store"
    ids = tool(data, "push", 50)
    slow = ["strace", "-f", "-o", "/dev/null", "-e", "trace=pread64,preadv,preadv2",
            "-e", "inject=pread64,preadv,preadv2:delay_enter=300000"]
    for wait, http in ((0.1, "off"), (0.7, "127.0.0.1:0"), (1.3, "off")):
        with Server(data, "--http", http, before=slow) as server:
            server.wait_for("data in")
            children = f"/proc/{server.process.pid}/task/{server.process.pid}/children"
            time.sleep(wait)
            start = time.monotonic()
            os.kill(int(open(children).read().split()[0]), signal.SIGTERM)
            assert server.ended() == 0
            assert time.monotonic() - start < STOP_S
            assert "stopped before it was ready\n" in server.said
            assert "ready in" not in server.said and "damage" not in server.said
    with Server(data) as server:
        assert server.ready()[0] == 50
        assert server.stop() == 0
    assert len(tool(data, "list")) == len(ids)


# ---- drain ----


def test_drain_over_http(tmp_path):
    with web_server(tmp_path / "store") as server:
        web = Web(web_port(server))
        web.push("t", b"x")
        far = web.push("t", b"far", delay="1h", key="k")
        assert web.get("/readyz").status == 200
        server.process.send_signal(signal.SIGUSR1)
        server.wait_for("draining: no new jobs are taken until the next start")
        for answer in (web.post("/v1/topics/t/jobs", b"y"), web.get("/readyz")):
            assert answer.status == 503
            assert int(answer.headers["Retry-After"]) > 0
        assert web.get("/readyz").code == "not_ready"
        assert web.post("/v1/topics/t/jobs", b"y").code == "draining"
        many = web.post("/v1/jobs", '[{"topic":"t","body":"y"}]')
        assert many.status == 200 and many.json["results"][0]["error"]["code"] == "draining"
        assert web.get("/healthz").status == 200
        job = web.reserve("t")[0]  # all else goes on
        assert web.post(f"/v1/jobs/{job['id']}/ack", lease=job["lease"]).status == 200
        assert web.ask("DELETE", f"/v1/jobs/{far['id']}").status == 200
        with Client(server.port()) as client:
            client.send(client.put_bytes(b"y"))
            assert client.reply().word == "DRAINING"
        assert server.stop() == 0


# ---- reload ----


def reload(server, conf, text, says):
    conf.write_text(text)
    server.said = ""
    server.process.send_signal(signal.SIGHUP)
    server.wait_for(says)


def test_config_shows_what_a_reload_has_changed(tmp_path):
    conf = tmp_path / "tarry.conf"
    conf.write_text("")
    with web_server(tmp_path / "store", "--config", str(conf), "--set", "scrub.every=3d") as server:
        web = Web(web_port(server))
        reload(server, conf, "[history]\nbytes = 1M\n[io]\nbackground = 5M\n[memory]\nnear = 5000\n"
                             "[scrub]\nrate = 1M\nevery = 1d\n", "scrub.rate is now 1M, was 10M\n")
        assert "memory.near stays 2500000 until a restart, which would make it 5000: " in server.said
        shown = web.get("/v1/config").json["settings"]
        where = {"from": "file", "file": str(conf)}
        assert shown["history.bytes"] == {"value": "1M", **where, "line": 2}
        assert shown["io.background"] == {"value": "5M", **where, "line": 4}
        assert shown["scrub.rate"] == {"value": "1M", **where, "line": 8}
        assert shown["scrub.every"] == {"value": "3d", "from": "flag"}
        assert shown["memory.near"] == {"value": "2500000", "from": "default"}
        reload(server, conf, "[history]\nbytes = 2M\n[io]\nbackground = much\n", "not taken over")
        assert web.get("/v1/config").json["settings"] == shown
        reload(server, conf, "", "io.background is now 100M, was 5M\n")
        assert web.get("/v1/config").json["settings"]["history.bytes"] == {"value": "64MiB",
                                                                           "from": "default"}
        assert server.stop() == 0


def test_reload_of_hosts_and_heads(tmp_path):
    conf = tmp_path / "tarry.conf"
    conf.write_text("")
    with web_server(tmp_path / "store", "--config", str(conf)) as server:
        port = web_port(server)
        named = b"GET /healthz HTTP/1.1\r\nHost: tarry.example\r\n\r\n"
        long = b"GET /healthz HTTP/1.1\r\nX: " + b"x" * 3000 + b"\r\n" + HEAD + b"\r\n"
        with raw(port) as kept:  # for one who is there already, too
            stream = kept.makefile("rb")

            def ask(sent):
                kept.sendall(sent)
                return read_answer(stream).status

            assert [ask(named), ask(long)] == [421, 200]
            reload(server, conf, "[http]\nhosts = tarry.example, other.example\n", "http.hosts is now")
            assert [ask(named), ask(long)] == [200, 200]
            reload(server, conf, "[limits]\nheader_bytes = 2k\n", "header_bytes is now")
            assert [ask(named), ask(long)] == [421, 431]
        assert server.stop() == 0


def test_reload_of_the_number_of_connections(tmp_path):
    conf = tmp_path / "tarry.conf"
    conf.write_text("[limits]\nconnections = 2\n")

    def is_let_in(port):
        with Client(port) as client:
            try:
                return client.say("list-tube-used") == "USING default"
            except (EOFError, ConnectionError):
                return False  # sent away before it could say anything

    with Server(tmp_path / "store", "--config", str(conf)) as server:
        port = server.port()
        with Client(port) as a, Client(port) as b:
            clients = a, b
            assert [client.say("list-tube-used") for client in clients] == ["USING default"] * 2
            assert not is_let_in(port)
            server.wait_for("limit of connections")
            reload(server, conf, "[limits]\nconnections = 3\n", "connections is now 3, was 2")
            assert is_let_in(port)
            reload(server, conf, "[limits]\nconnections = 1\n", "connections is now 1, was 3")
            assert not is_let_in(port)
            assert [client.say("list-tube-used") for client in clients] == ["USING default"] * 2  # nobody is sent away
        end = time.monotonic() + PATIENCE_S
        while not is_let_in(port):  # when it has noticed that they are gone
            assert time.monotonic() < end
        assert server.stop() == 0


def test_reload_of_the_log(tmp_path):
    conf = tmp_path / "tarry.conf"
    conf.write_text("")
    with Server(tmp_path / "store", "--config", str(conf)) as server:
        port = server.port()
        server.ready()
        reload(server, conf, "[log]\njson = on\n", "log.json is now on")
        reload(server, conf, "[log]\njson = on\n", '"msg":"config read again: nothing has changed"')
        reload(server, conf, "[log]\nlevel = error\n", "log.level is now error")
        conf.write_text("[log]\nlevel = error\n[limits]\nbody = 1k\n")
        server.process.send_signal(signal.SIGHUP)  # of which nothing is said
        with Client(port) as client:
            client.send(client.put_bytes(b"x" * 2000))
            while client.reply().word != "JOB_TOO_BIG":  # but it is done
                client.send(client.put_bytes(b"x" * 2000))
        conf.unlink()
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("error: the config was not taken over")
        assert "limits.body" not in server.said
        assert server.stop() == 0


def test_signals_by_the_hundred(tmp_path):
    """Reloads under load: none disturbs a client."""
    conf = tmp_path / "tarry.conf"
    conf.write_text("")
    with Server(tmp_path / "store", "--config", str(conf)) as server:
        with Client(server.port()) as client:
            for i in range(100):
                conf.write_text(f"[limits]\nbody = {1000 + i}\n[history]\nbytes = {i}M\n")
                server.process.send_signal(signal.SIGHUP)
                id = client.put(b"x" * 900)
                assert client.reserve(5) == (id, b"x" * 900)
                assert client.say(f"delete {id}") == "DELETED"
        assert server.stop() == 0
        assert subprocess.run([TARRY, "check", str(tmp_path / "store")],
                              capture_output=True).returncode == 0
