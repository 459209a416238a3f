"""The config as the binary reads it: flags, environment, file, and the flags of beanstalkd.

What each source may hold is tested in test/unit/test_config.c; here it is what a user sees of it:
exit codes, stdout and stderr, what the server then does."""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time

import pytest

from harness import LOCAL, PATIENCE_S, TARRY, Server, tarry

DOC = pathlib.Path(__file__).parents[2] / "doc" / "config.md"


class Program(Server):
    """A running server by its whole command line."""

    def __init__(self, *command, env=None, cwd=None):
        self.started = time.monotonic()
        self.said = ""
        self.process = subprocess.Popen([*map(str, command)], cwd=cwd,
                                        env={**os.environ, **(env or {})},
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def refused(*args, status=2, **more):
    """It must end at once with this status and one reason on stderr: gives that."""
    done = tarry(*args, **more)
    assert (done.returncode, done.stdout) == (status, ""), done.stderr
    why, advice = done.stderr.splitlines()
    assert why.startswith("tarry: ")
    assert advice.startswith("Try: tarry")
    return why


def port(server):
    server.ready()
    return int(server.wait_for(r"listening: beanstalk on 127\.0\.0\.1:(\d+)\n")[1])


def put(address, size):
    """The answer to a put of so many bytes, by (host, port) or a path."""
    family = socket.AF_INET if isinstance(address, tuple) else socket.AF_UNIX
    with socket.socket(family) as wire:
        wire.settimeout(PATIENCE_S)
        wire.connect(address)
        wire.sendall(b"put 0 0 60 %d\r\n%s\r\n" % (size, b"x" * size))
        return wire.makefile("rb").readline().split()[0]


def env(**more):
    return {**os.environ, **more}


# ---- sources ----


def test_file_environment_and_flags_together(tmp_path):
    conf = tmp_path / "tarry.conf"
    conf.write_text("# all in one\n[store]\npath = from-file\nsync = never\n"
                    "[listen]\nbeanstalk = 127.0.0.1:0\nhttp = off\n")
    with Program(TARRY, "serve", "--config", conf, cwd=tmp_path) as server:
        server.ready()
        assert "data in from-file, sync never\n" in server.said
        assert server.stop() == 0
    with Program(TARRY, "serve", cwd=tmp_path,
                 env={"TARRY_CONFIG": str(conf), "TARRY_STORE_PATH": "from-env"}) as server:
        server.ready()
        assert "data in from-env, sync never\n" in server.said
        assert server.stop() == 0
    with Program(TARRY, "serve", f"--config={conf}", "--data", "from-flag", "--set",
                 "store.sync=50ms", cwd=tmp_path, env={"TARRY_STORE_PATH": "from-env"}) as server:
        server.ready()
        assert "data in from-flag, sync 50ms\n" in server.said
        assert server.stop() == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["from-env", "from-file",
                                                                "from-flag", "tarry.conf"]


def test_mistakes_in_the_file_are_told_by_line(tmp_path):
    conf = tmp_path / "tarry.conf"
    for text, line, says in [
            ("[store]\npth = x\n", 2, 'there is no key "pth"'),
            ("\n[stor]\n", 2, 'there is no section "stor"'),
            ("[store]\npath = x\npath = y\n", 3, "the first is in line 2"),
            ("[store]\nsync = sometimes\n", 2, "always, 50ms or never"),
            ("[store]\npath = a\n    b\n", 3, "this is no [section]"),
            ("[store]\npath = " + "x" * 200, 2, "longer than 199 bytes"),
            ("[listen]\nbeanstalk = 0.0.0.0:0\n", 2, "--insecure")]:
        conf.write_text(text)
        why = refused("serve", "--config", conf, cwd=tmp_path)
        assert why.startswith(f"tarry: {conf}:{line}: ")
        assert says in why
    assert list(tmp_path.iterdir()) == [conf]


def test_file_that_cannot_be_read(tmp_path):
    assert "No such file" in refused("serve", "--config", tmp_path / "none")
    assert "Is a directory" in refused("serve", env=env(TARRY_CONFIG=str(tmp_path)))


def test_mistakes_in_the_environment():
    assert "TARRY_STORE_SYNC takes always" in refused("serve", env=env(TARRY_STORE_SYNC="x"))
    assert "TARRY_STORE_PTH" in refused("serve", env=env(TARRY_STORE_PTH="x"))
    assert tarry("version", env=env(TARRY_STORE_PTH="x")).returncode == 0


def test_variables_that_are_no_keys_are_told_and_ignored(tmp_path):
    names = {"TARRY_FOO": "1", "TARRY_DATA": "/x", "TARRY_TEST_DIR": "1"}
    with Program(TARRY, "serve", *LOCAL, env=names, cwd=tmp_path) as server:
        server.ready()
        assert server.stop() == 0
        for name in names:
            assert f"warning: the environment variable {name} is ignored" in server.said


def test_redis_has_to_be_named():
    assert "redis.servers" in refused("serve", "--engine", "redis")


# ---- addresses ----


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.0.2.1:11300"])
def test_open_address_needs_a_word(address):
    for flag in ("--beanstalk", "--http"):
        why = refused("serve", flag, address)
        assert address in why and "--insecure" in why


def test_insecure_is_allowed_and_told(tmp_path):
    with Server(tmp_path / "store", "--beanstalk", "0.0.0.0:0", "--insecure") as server:
        server.ready()
        server.wait_for("warning: 0.0.0.0:0 can be reached from other machines")
        assert server.stop() == 0


def test_http_port_is_told(tmp_path):
    command = [TARRY, "serve", "--data", tmp_path / "store", "--beanstalk", "127.0.0.1:0"]
    for flags, count in [(["--http", "127.0.0.1:0"], 1), (["--http=off"], 0)]:
        with Program(*command, *flags) as server:
            server.ready()
            assert server.stop() == 0
            assert len(re.findall(r"listening: http on 127\.0\.0\.1:[1-9]\d*\n", server.said)) == count


# ---- limits, and changing them ----


@pytest.mark.parametrize("limit, size", [("65535", 65535), ("1", 1), ("8MiB", 8 << 20)])
def test_limit_of_a_body(limit, size, tmp_path):
    with Server(tmp_path / "store", *LOCAL, "--set", f"limits.body={limit}") as server:
        address = ("127.0.0.1", port(server))
        assert put(address, size) == b"INSERTED"
        assert put(address, size + 1) == b"JOB_TOO_BIG"
        assert server.stop() == 0


def test_sighup_reads_the_file_again(tmp_path):
    conf = tmp_path / "tarry.conf"
    conf.write_text("[limits]\nbody = 1k\n")
    with Server(tmp_path / "store", *LOCAL, "--config", str(conf)) as server:
        address = ("127.0.0.1", port(server))
        assert put(address, 1025) == b"JOB_TOO_BIG"
        conf.write_text("[store]\nsync = never\n[limits]\nbody = 2k\n")
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("note: config read again: limits.body is now 2k, was 1k\n")
        server.wait_for("warning: config read again: store.sync stays always until a restart, "
                        "which would make it never: the store was opened with it\n")
        assert put(address, 1025) == b"INSERTED"
        conf.write_text("[limits]\nbody = 3x\n")
        server.process.send_signal(signal.SIGHUP)
        server.wait_for(f"error: the config was not taken over.*{conf}:2: limits.body takes")
        assert put(address, 1025) == b"INSERTED"
        conf.write_text("[limits]\nbody = 1k\n[log]\njson = on\n")
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("note: config read again: log.json is now on, was off\n")
        assert put(address, 1025) == b"JOB_TOO_BIG"
        server.process.send_signal(signal.SIGHUP)
        server.wait_for('"level":"info","msg":"config read again: nothing has changed"}\n')
        assert server.stop() == 0


def test_sighup_without_a_file(tmp_path):
    with Server(tmp_path / "store", *LOCAL) as server:
        server.ready()
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("note: there is no config file to read again\n")
        assert server.stop() == 0


# ---- the log ----


def test_log_as_json(tmp_path):
    process = subprocess.Popen([TARRY, "serve", "--data", str(tmp_path / "store"), "--http", "off",
                                "--log-json", "--beanstalk", "0.0.0.0:0", "--insecure"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = json.loads(process.stderr.readline())
    assert process.stdout.readline().startswith("tarry ")  # what was asked for stays text
    process.terminate()
    process.communicate()
    assert process.returncode == 0
    assert list(line) == ["time", "level", "msg"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])
    assert line["level"] == "warning"
    assert line["msg"].startswith("0.0.0.0:0 can be reached from other machines")


def test_log_level(tmp_path):
    with Server(tmp_path / "store", *LOCAL, "--log-level=error") as server:
        server.ready()
        assert server.stop() == 0
        assert "warning" not in server.said


# ---- beanstalkd ----


@pytest.fixture
def beanstalkd(tmp_path):
    """tarry under the name of beanstalkd."""
    link = tmp_path / "beanstalkd"
    link.symlink_to(TARRY)
    return link


def run(*command):
    return subprocess.run([*map(str, command)], capture_output=True, text=True)


def test_link_named_beanstalkd(beanstalkd, tmp_path):
    for start in ([beanstalkd], [TARRY, "beanstalkd"]):
        data = tmp_path / f"store{len(start)}"
        with Program(*start, "-p0", "-l", "127.0.0.1", "-b", data, "-Vz100") as server:
            server.ready()
            assert f"data in {data}, sync 50ms\n" in server.said
            assert server.stop() == 0
    done = run(beanstalkd, "-v")
    version = tarry("version").stdout.split()[1]
    assert (done.returncode, done.stdout) == (0, f"beanstalkd 1.13 (tarry {version})\n")
    done = run(beanstalkd, "-h")
    assert (done.returncode, done.stdout) == (0, tarry("help", "beanstalkd").stdout)


def test_beanstalkd_limit_and_socket(beanstalkd, tmp_path):
    with Program(beanstalkd, "-p0", "-z100") as server:
        address = ("127.0.0.1", port(server))
        assert [put(address, size) for size in (100, 101)] == [b"INSERTED", b"JOB_TOO_BIG"]
        assert server.stop() == 0
    path = str(tmp_path / "socket")
    with Program(beanstalkd, "-l", f"unix:{path}", "-p", "1") as server:
        server.ready()
        assert [put(path, size) for size in (65535, 65536)] == [b"INSERTED", b"JOB_TOO_BIG"]
        assert server.stop() == 0


def test_beanstalkd_heeds_no_environment(tmp_path):
    data = tmp_path / "store"
    with Program(TARRY, "beanstalkd", "-p0", "-b", data, "-f0", cwd=tmp_path,
                 env={"TARRY_STORE_PATH": "x", "TARRY_FOO": "1", "TARRY_CONFIG": "y"}) as server:
        server.ready()
        assert f"data in {data}, sync always\n" in server.said
        assert server.stop() == 0
    assert list(tmp_path.iterdir()) == [data]


def test_beanstalkd_on_all_addresses_is_its_users_word(tmp_path):
    with Program(TARRY, "beanstalkd", "-p0", "-b", tmp_path / "store", "-l0.0.0.0") as server:
        server.ready()
        server.wait_for("warning: 0.0.0.0:0 can be reached from other machines")
        assert server.stop() == 0


def test_beanstalkd_binlog_is_not_overlooked(tmp_path):
    (tmp_path / "binlog.7").write_bytes(b"x" * 100)
    (tmp_path / "lock").write_bytes(b"")
    with Program(TARRY, "beanstalkd", "-p0", "-b", tmp_path) as server:
        server.ready()
        server.wait_for("warning: .* holds a binlog of beanstalkd, which tarry does not read")
        assert server.stop() == 0
    assert (tmp_path / "binlog.7").read_bytes() == b"x" * 100


@pytest.mark.parametrize("flags", [["-X"], ["-VX"], ["foo"], ["-"], ["--"], ["-p"], ["-z", "abc"],
                                   ["-f", "1.5"], ["-z1k"], ["-sabc"], ["-Vb"]])
def test_beanstalkd_wrong_flags_end_as_there(flags):
    refused("beanstalkd", *flags, status=5)
    theirs = shutil.which("beanstalkd")
    if theirs:
        assert run(theirs, *flags).returncode == 5


@pytest.mark.parametrize("flags, says", [
    (["-z", "8388609"], "8 MiB"), (["-z0"], "1 to 8388608"), (["-p", "abc"], "0 to 65535"),
    (["-p65536"], "0 to 65535"), (["-l", "example.org"], "names a host"), (["-l", "unix:"], "path")])
def test_beanstalkd_values_that_tarry_cannot_take(flags, says):
    assert says in refused("beanstalkd", *flags)


# ---- the document ----


def test_document_names_what_the_help_names():
    text = DOC.read_text()
    said = tarry("help", "serve").stdout
    for word in set(re.findall(r"--[a-z][a-z-]+|TARRY_[A-Z_]+[A-Z]|\b[a-z]+\.[a-z_]+\b(?=  )", said)):
        assert f"`{word}" in text, word
    for flag in re.findall(r"^  (-\w)", tarry("help", "beanstalkd").stdout, re.M):
        assert f"`{flag}" in text, flag


def test_example_in_the_document_is_valid(tmp_path):
    example = re.search(r"```ini\n(.*?)```", DOC.read_text(), re.S)[1]
    conf = tmp_path / "tarry.conf"
    conf.write_text(example)
    with Program(TARRY, "serve", "--config", conf, "--data", tmp_path / "store", *LOCAL) as server:
        server.ready()
        assert server.stop() == 0
