"""The beanstalk port of the process: addresses, unix sockets, the drop-in, signals, the last answers."""
import os
import pathlib
import pwd
import re
import signal
import socket
import subprocess
import tempfile
import time

import pytest

from client import Client
from harness import PATIENCE_S, STOP_S, TARRY, Server, tarry, tool


def talk(address, data):
    """Sends to "unix:PATH" or a port, closes the sending side, gives all that comes."""
    if isinstance(address, str):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(address.removeprefix("unix:"))
    else:
        connection = socket.create_connection(("127.0.0.1", address))
    with connection:
        connection.settimeout(PATIENCE_S)
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        said = b""
        while piece := connection.recv(65536):
            said += piece
    return said


class DropIn(Server):
    """A running `tarry beanstalkd` or a link of that name; no data directory but by -b."""

    def __init__(self, *flags, program=(TARRY, "beanstalkd"), env=None):
        self.started = time.monotonic()
        self.said = ""
        self.process = subprocess.Popen([*program, *map(str, flags)], env=env,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


# ---- addresses ----


def test_port_in_use(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = "127.0.0.1:%d" % other.getsockname()[1]
        done = tarry("serve", "--data", tmp_path / "store", "--beanstalk", address)
    assert done.returncode == 1
    assert f"{address}: another program listens there already" in done.stderr
    assert not (tmp_path / "store").exists()


def test_address_that_is_not_ours(tmp_path):
    done = tarry("serve", "--data", tmp_path / "store", "--insecure", "--beanstalk", "192.0.2.1:0")
    assert done.returncode == 1
    assert "no such address" in done.stderr


def test_ipv6(tmp_path):
    with Server(tmp_path / "store", "--beanstalk", "[::1]:0") as server:
        found = server.wait_for(r"listening: beanstalk on \[::1\]:(\d+)\n")
        with socket.create_connection(("::1", int(found[1]))) as connection:
            connection.sendall(b"list-tube-used\r\n")
            assert connection.recv(100) == b"USING default\r\n"
        assert server.stop() == 0


def test_port_can_be_off(tmp_path):
    with Server(tmp_path / "store", "--beanstalk", "off") as server:
        server.ready()
        assert "listening" not in server.said
        assert server.stop() == 0


def test_unix_socket(tmp_path):
    path = tmp_path / "tarry.sock"
    with Server(tmp_path / "store", "--beanstalk", f"unix:{path}") as server:
        server.ready()
        assert f"listening: beanstalk on unix:{path}\n" in server.said
        assert talk(f"unix:{path}", b"put 0 0 1 2\r\nhi\r\npeek 1\r\n") == (
            b"INSERTED 1\r\nFOUND 1 2\r\nhi\r\n")
        assert tarry("serve", "--data", tmp_path / "other", "--beanstalk",
                     f"unix:{path}").returncode == 1  # in use
        assert talk(f"unix:{path}", b"list-tube-used\r\n") == b"USING default\r\n"
        assert server.stop() == 0
    assert not path.exists()


def test_unix_socket_of_a_killed_server_is_taken_over(tmp_path):
    path = tmp_path / "tarry.sock"
    with Server(tmp_path / "store", "--beanstalk", f"unix:{path}") as server:
        server.ready()
        server.stop(signal.SIGKILL)
    assert path.is_socket()
    with Server(tmp_path / "store", "--beanstalk", f"unix:{path}") as server:
        server.ready()
        assert server.stop() == 0


def test_file_in_the_place_of_a_unix_socket_is_left_alone(tmp_path):
    path = tmp_path / "precious"
    path.write_text("keep me")
    done = tarry("serve", "--data", tmp_path / "store", "--beanstalk", f"unix:{path}")
    assert (done.returncode, path.read_text()) == (1, "keep me")


# ---- the drop-in ----


def test_drop_in_forgets_at_exit(tmp_path):
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    with DropIn("-p", 0, env=env) as server:
        found = server.wait_for(r"listening: beanstalk on 127.0.0.1:(\d+)\n")
        assert "the store is temporary" in server.said
        assert talk(int(found[1]), b"put 0 0 1 2\r\nhi\r\n") == b"INSERTED 1\r\n"
        assert len(list(tmp_path.iterdir())) == 1
        assert server.stop() == 0
    assert list(tmp_path.iterdir()) == []


def test_drop_in_by_its_name_on_a_unix_socket(tmp_path):
    link = tmp_path / "beanstalkd"
    link.symlink_to(TARRY)
    path = tmp_path / "sock"
    store = tmp_path / "store"
    for jobs in (b"1", b"2"):
        with DropIn("-l", f"unix:{path}", "-b", store, "-f0", program=[link]) as server:
            server.ready()
            assert "sync always" in server.said
            assert talk(f"unix:{path}", b"put 0 0 1 2\r\nhi\r\n") == b"INSERTED %s\r\n" % jobs
            assert server.stop() == 0


def test_drop_in_sizes(tmp_path):
    with DropIn("-p0", "-z10", "-b", tmp_path / "store") as server:
        port = int(server.wait_for(r"127.0.0.1:(\d+)\n")[1])
        assert talk(port, b"put 0 0 1 10\r\n0123456789\r\nput 0 0 1 11\r\n01234567890\r\n") == (
            b"INSERTED 1\r\nJOB_TOO_BIG\r\n")
        assert b"max-job-size: 10\n" in talk(port, b"stats\r\n")
        assert server.stop() == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_drop_in_becomes_another_user(tmp_path):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tarry-user-"))  # tmp_path is closed to others
    nobody = pwd.getpwnam("nobody")
    try:
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
        with DropIn("-p0", "-u", "nobody", "-b", folder / "store") as server:
            server.ready()
            status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
            assert re.search(rf"Uid:(\s+{nobody.pw_uid}){{4}}", status)
            assert (folder / "store").stat().st_uid == nobody.pw_uid
            assert server.stop() == 0
        done = tarry("beanstalkd", "-p0", "-u", "no-such-user", "-b", folder / "other")
        assert done.returncode == 1 and "no such user" in done.stderr
    finally:
        subprocess.run(["rm", "-r", str(folder)], check=True)


# ---- ways to go ----


def test_half_close_behind_a_wait_with_much_pipelined(tmp_path):
    """More than the server reads ahead stands behind the wait that the half-close ends."""
    count = 20000
    with Server(tmp_path / "store") as server:
        port = server.port()
        said = talk(port, b"reserve\r\n" + b"use a\r\n" * count)
        assert said == b"TIMED_OUT\r\n" + b"USING a\r\n" * count
        with Client(port) as client:
            assert client.table("stats")["current-connections"] == "1"
        assert server.stop() == 0


def test_half_close_behind_more_replies_than_are_kept(tmp_path):
    """The last command waits until the replies before it have left; it is executed all the same."""
    body = b"x" * 30000
    with Server(tmp_path / "store") as server:
        port = server.port()
        assert talk(port, b"put 0 0 1 30000\r\n%s\r\n" % body) == b"INSERTED 1\r\n"
        for number in range(2, 12):
            said = talk(port, b"peek 1\r\n" * 20 + b"put 0 0 1 1\r\nx\r\n")
            assert said.endswith(b"INSERTED %d\r\n" % number)
            assert said.count(b"FOUND 1 30000\r\n") == 20
        assert server.stop() == 0


# ---- stopping ----


def test_stop_answers_what_was_taken(tmp_path):
    """Many clients, each with puts on their way: who got INSERTED finds the job after the stop."""
    data = tmp_path / "store"
    with Server(data) as server:
        clients = [Client(server.port()) for _ in range(8)]
        for number, client in enumerate(clients):
            client.send(b"".join(client.put_bytes(b"%d-%d" % (number, i)) for i in range(300)))
        time.sleep(0.01)
        assert server.stop() == 0
        told = set()
        for client in clients:
            try:
                while True:
                    told.add(int(client.reply().args[0]))
            except (EOFError, ConnectionResetError):
                pass
            client.close()
    with Server(data) as server:
        found = server.ready()[0]
        with Client(server.port()) as client:
            assert all(client.peek(job) is not None for job in told)
        assert found >= len(told)


def test_stop_does_not_wait_for_those_who_wait(tmp_path):
    """As long as it would wait for those who do not read. A busy machine may be slow once, but not each time."""
    def took(number):
        with Server(tmp_path / str(number)) as server:
            with Client(server.port()) as waiter, Client(server.port()) as idle:
                idle.put(b"x", delay=1000)
                waiter.send("reserve\r\n")
                idle.say("list-tube-used")
                start = time.monotonic()
                assert server.stop() == 0
                seconds = time.monotonic() - start
                for client in (waiter, idle):
                    with pytest.raises(EOFError):
                        client.more()
                return seconds
    assert any(took(number) < 2.5 for number in range(5))


def test_stop_does_not_wait_for_those_who_do_not_read(tmp_path):
    with Server(tmp_path / "store", "--set", "limits.body=1MiB") as server:
        with Client(server.port()) as client:
            client.put(b"x" * 1000000)
            client.send("peek 1\r\n" * 200)
            time.sleep(0.2)
            start = time.monotonic()
            assert server.stop() == 0
            assert time.monotonic() - start < STOP_S


def test_drain_is_told_and_ends_with_the_process(tmp_path):
    data = tmp_path / "store"
    with Server(data) as server:
        with Client(server.port()) as client:
            client.put(b"x")
            server.process.send_signal(signal.SIGUSR1)
            server.wait_for("draining")
            client.send(client.put_bytes(b"y"))
            assert client.reply().word == "DRAINING"
            assert client.table("stats")["draining"] == "true"
            assert client.reserve() == (1, b"x")
        assert server.stop() == 0
    with Server(data) as server:
        with Client(server.port()) as client:
            client.put(b"y")


def test_reload_changes_the_limit_of_bodies(tmp_path):
    conf = tmp_path / "tarry.conf"
    conf.write_text("[limits]\nbody = 3\n")
    with Server(tmp_path / "store", "--config", str(conf)) as server:
        with Client(server.port()) as client:
            client.send(client.put_bytes(b"four"))
            assert client.reply().word == "JOB_TOO_BIG"
            conf.write_text("[limits]\nbody = 4\n")
            server.process.send_signal(signal.SIGHUP)
            server.wait_for("limits.body")
            client.put(b"four")
            conf.write_text("[limits]\nbody = many\n")
            server.process.send_signal(signal.SIGHUP)
            server.wait_for("tarry.conf:2")
            client.put(b"four")
        assert server.stop() == 0


# ---- one store, two ways in ----


def test_jobs_from_elsewhere_are_served(tmp_path):
    data = tmp_path / "store"
    ids = [int(line) for line in tool(data, "push", 3, "orders")]
    with Server(data) as server:
        with Client(server.port()) as client:
            client.say("watch orders")
            client.say("use orders")
            assert client.say("kick 9") == "KICKED 3"  # the tool pushes them for later
            assert [client.reserve()[0] for _ in ids] == ids
