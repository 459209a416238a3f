"""check, --repair, export and serve --read-only, on real stores that are really damaged."""
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import tarfile
import time

import pytest

from client import Client
from harness import LOCAL, PATIENCE_S, TARRY, Server, tarry, tool
from web import Web, web_port, web_server

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
FRAME = b"TRfr"


def jobs(data):
    """All jobs that export gives, by id, and its exit status."""
    done = tarry("export", data)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row for row in rows}, done.returncode


def bytes_of(data):
    return {path.name: path.read_bytes() for path in data.iterdir() if path.is_file()}


def golden(tmp_path, name):
    data = tmp_path / name
    data.mkdir()
    with tarfile.open(GOLDEN / f"{name}.tar.gz") as tar:
        tar.extractall(data)
    return data


def frames(data, slot="w.000"):
    """Offsets of the frames of a slot."""
    content = (data / slot).read_bytes()
    return [at for at in range(4096, len(content), 4096) if content[at:at + 4] == FRAME]


def spoil(path, offset, count=1):
    with open(path, "r+b") as file:
        file.seek(offset)
        old = file.read(count)
        file.seek(offset)
        file.write(bytes(byte ^ 0x5a for byte in old))


@pytest.fixture(name="data")
def store(tmp_path):
    """Thirty jobs, of which ten are gone; the log is all there is."""
    data = tmp_path / "data"
    ids = tool(data, "push", 10, "mail") + tool(data, "push", 20, "orders")
    for number in ids[:10]:
        tool(data, "delete", number)
    tool(data, "crash-after", 5, "late", status=9)
    return data


# ---- check ----


def test_fine(data):
    before = bytes_of(data)
    done = tarry("check", data)
    assert (done.returncode, done.stderr) == (0, "")
    assert "25 jobs (0 dead, 0 with a key) in 2 topics" in done.stdout
    assert "fine" in done.stdout
    told = json.loads(tarry("check", "--json", data).stdout)
    assert (told["ok"], told["findings"], told["jobs"]) == (True, [], 25)
    assert bytes_of(data) == before


def test_read_only_directory(data):
    """A copy that cannot be written to, without a lock file."""
    (data / "lock").unlink()
    for path in data.iterdir():
        path.chmod(0o400)
    data.chmod(0o500)
    assert tarry("check", data).returncode == 0
    assert len(jobs(data)[0]) == 25
    data.chmod(0o700)


@pytest.mark.parametrize("name", ["v1-clean", "v1-killed", "v1-mid-relog", "v1-groups",
                                  "v1-groups-killed"])
def test_golden(tmp_path, name):
    data = golden(tmp_path, name)
    done = tarry("check", data)
    assert done.returncode == 0, done.stdout


def test_wrong_usage(tmp_path):
    for args in ([], ["--nonsense", tmp_path], [tmp_path, tmp_path]):
        for command in ("check", "export") if args else ("check",):
            done = tarry(command, *args)
            assert done.returncode == 2
            assert f"tarry {command} --help" in done.stderr


def test_no_store(tmp_path):
    for command in ("check", "export"):
        for where in (tmp_path / "none", tmp_path):
            done = tarry(command, where)
            assert done.returncode == 1
            assert "no store" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_store_in_use(data):
    with Server(data) as server:
        server.ready()
        for args in (["check"], ["check", "--repair"], ["export"]):
            done = tarry(*args, data)
            assert done.returncode == 1
            assert "a server has this store open" in done.stderr
        assert server.stop() == 0


def test_newer_format(data):
    for name in ("man.0", "man.1"):
        path = data / name
        content = bytearray(path.read_bytes())
        for copy in (0, 32768):
            content[copy + 8] = 2  # its version
            content[copy + 4:copy + 8] = crc32c(content[copy + 8:copy + 32768]).to_bytes(4, "little")
        path.write_bytes(content)
    before = bytes_of(data)
    for args in (["check"], ["check", "--repair"], ["export"], ["serve", *LOCAL, "--data"]):
        done = tarry(*args, data)
        assert done.returncode == 3
        assert "newer" in done.stderr
    assert {name: content for name, content in bytes_of(data).items() if name != "lock"} == {
        name: content for name, content in before.items() if name != "lock"}


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 & -(crc & 1))
    return crc ^ 0xffffffff


def test_help():
    for command in ("check", "export"):
        done = tarry(command, "--help")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == tarry("help", command).stdout
        assert done.stdout.count(f"  tarry {command} ") >= 2
        assert command in tarry("help").stdout


# ---- damage ----


def test_damaged_log(data):
    """A frame in the middle: named with its place, exit 3; what follows it is still there."""
    before, _ = jobs(data)
    place = frames(data)[4]
    spoil(data / "w.000", place + 100, 8)
    done = tarry("check", data)
    assert done.returncode == 3
    assert f"w.000, offset {place}, 4096 bytes" in done.stdout
    assert "tarry check --repair" in done.stdout
    told = json.loads(tarry("check", "--json", data).stdout)
    assert not told["ok"]
    assert [(row["file"], row["offset"]) for row in told["findings"]
            if "file" in row][:1] == [("w.000", place)]
    after, status = jobs(data)
    assert status == 3
    assert len(after) >= len(before) - 1
    refused = tarry("serve", "--data", data, *LOCAL)
    assert refused.returncode == 3
    assert "tarry check" in refused.stderr


def test_repair(data):
    before, _ = jobs(data)
    place = frames(data)[15]
    spoil(data / "w.000", place, 200)
    old = (data / "w.000").read_bytes()
    done = tarry("check", "--repair", data)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "repaired" in done.stdout
    folder, = (data / "quarantine").iterdir()
    assert f"w.000, offset {place}" in (folder / "report.txt").read_text()
    assert (folder / f"w.000.{place}").read_bytes() == old[place:place + 4096]
    assert tarry("check", data).returncode == 0
    after, status = jobs(data)
    assert status == 0
    assert set(after) <= set(before)
    assert len(after) == len(before) - 1
    assert all(after[number] == before[number] for number in after)
    with Server(data) as server:
        assert server.ready()[0] == len(after)
        with Client(server.port()) as client:
            assert client.put(b"new") > max(map(int, before))
        assert server.stop() == 0
    assert tarry("check", data).returncode == 0
    assert tarry("check", "--repair", data).returncode == 0


def test_lost_kill_comes_again(data):
    """The frame with a delete is damaged: its job is there again, and that is said."""
    with Server(data) as server:
        server.ready()
        with Client(server.port()) as client:
            gone = client.put(b"gone")
            before = frames(data)
            assert client.say(f"delete {gone}") == "DELETED"
            place = min(set(frames(data)) - set(before))
            client.put(b"later")
            client.put(b"latest")
        server.stop(signal.SIGKILL)
    assert str(gone) not in jobs(data)[0]
    spoil(data / "w.000", place, 96)
    done = tarry("check", "--repair", data)
    assert done.returncode == 0, done.stderr
    assert "may come again" in done.stdout
    after, _ = jobs(data)
    assert str(gone) in after
    assert len(after) == 28
    assert tarry("check", data).returncode == 0


def test_both_checkpoints(tmp_path):
    """L is lost: everything of which no death is known is alive."""
    data = golden(tmp_path, "v1-groups")
    before, _ = jobs(data)
    for name in ("ckpt.0", "ckpt.1"):
        for page in range((data / name).stat().st_size // 8192):
            spoil(data / name, page * 8192 + 100, 4)
    done = tarry("check", "--repair", data)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Both checkpoints are damaged" in done.stdout
    after, status = jobs(data)
    assert status == 0
    assert set(before) <= set(after)


@pytest.mark.parametrize("suffix", ["run", "dead", "six"])
def test_damaged_group(tmp_path, suffix):
    data = golden(tmp_path, "v1-groups")
    before, _ = jobs(data)
    path = sorted(data.glob(f"g*.{suffix}"))[1]
    spoil(path, 300 if suffix != "six" else 4096 * 3 + 40, 4)
    done = tarry("check", data)
    assert done.returncode == 3
    assert path.name in done.stdout
    done = tarry("check", "--repair", data)
    assert done.returncode == 0, done.stdout + done.stderr
    after, status = jobs(data)
    assert status == 0
    assert len(after) >= len(before) - (0 if suffix == "six" else 2)
    lost = set(before) - set(after)
    assert all(f"Job {number}." in done.stdout for number in lost)
    assert tarry("check", data).returncode == 0


# ---- what a start makes good by itself ----


def told_of(data):
    """The files that a check names; nothing may be lost by any of it, and a check says so."""
    done = tarry("check", data)
    assert done.returncode == 3
    assert "No job is lost" in done.stdout and "\nlost:" not in "\n" + done.stdout
    told = json.loads(tarry("check", "--json", data).stdout)
    assert (told["ok"], told["lost"], told["twice"]) == (False, 0, 0)
    assert {row["fate"] for row in told["findings"]} == {"damaged"}
    return {row["file"] for row in told["findings"]}


def serve_once(data):
    """What a server says that opens the store, and goes."""
    with Server(data) as server:
        server.ready()
        assert server.stop() == 0
        return server.said


@pytest.mark.parametrize("offset", [4, 20, 5000])
def test_damaged_checkpoint(data, offset):
    """Either of the two, after a stop in order."""
    serve_once(data)
    for name in ("ckpt.0", "ckpt.1"):
        before, _ = jobs(data)
        spoil(data / name, offset)
        assert told_of(data) == {name}
        assert jobs(data)[0] == before
        serve_once(data)
        assert tarry("check", data).returncode == 0


@pytest.mark.parametrize("offset,count", [(4, 1), (50, 1), (0, 64)])
def test_damaged_header(data, offset, count):
    serve_once(data)
    before, _ = jobs(data)
    spoil(data / "w.000", offset, count)
    assert told_of(data) == {"w.000"}
    assert jobs(data)[0] == before
    assert "header of slot w.000" in serve_once(data)
    assert tarry("check", data).returncode == 0
    assert "header of slot" not in serve_once(data)


@pytest.mark.parametrize("suffix,offset", [("six", 0), ("six", 5000), ("run", -10), ("dead", -100),
                                           ("six", None)])
def test_index_made_again(tmp_path, suffix, offset):
    """What can be made again is, in memory for those who only look; the right file is named."""
    data = golden(tmp_path, "v1-groups")
    before, _ = jobs(data)
    path = sorted(data.glob(f"g*.{suffix}"))[1]
    if offset is None:
        path.unlink()
    else:
        spoil(path, offset % path.stat().st_size)
    damaged = bytes_of(data)
    assert told_of(data) == {path.name}
    assert jobs(data) == (before, 0)
    with Server(data, "--read-only") as server:
        assert server.ready()[0] == len(before)
        assert path.name in server.said and "in memory" in server.said
        with Client(server.port()) as client:
            assert all(client.peek(int(number)) is not None for number in before)
        assert server.stop() == 0
    assert bytes_of(data) == damaged
    copy = tmp_path / "copy"
    shutil.copytree(data, copy)
    done = tarry("check", "--repair", copy)
    assert done.returncode == 0 and "lost:" not in done.stdout, done.stdout + done.stderr
    assert path.name in serve_once(data)
    assert set(jobs(copy)[0]) == set(before)
    whole = tmp_path / "whole"  # a server drops old dead jobs
    whole.mkdir()
    whole = golden(whole, "v1-groups")
    serve_once(whole)
    assert set(jobs(data)[0]) == set(jobs(whole)[0])
    for store in (data, copy):
        assert tarry("check", store).returncode == 0


@pytest.mark.parametrize("suffix,offset", [("six", 0), ("run", -10)])
def test_index_that_cannot_be_made_again(tmp_path, suffix, offset):
    """A block is damaged, too: the group is lost, and everybody says so."""
    data = golden(tmp_path, "v1-groups")
    before, _ = jobs(data)
    path = sorted(data.glob(f"g*.{suffix}"))[1]
    spoil(path.with_suffix(".run"), 300, 4)
    spoil(path, offset % path.stat().st_size)
    done = tarry("check", data)
    assert done.returncode == 3
    assert re.search(f"lost: {path.name}: .* Jobs from \\d+ to \\d+ may be among them", done.stdout)
    done = tarry("export", data)
    assert done.returncode == 3
    assert 0 < len(done.stdout.splitlines()) < len(before)
    assert f"lost: {path.name}: " in done.stderr and "what is missing is above" in done.stderr
    assert "tarry check --repair" in done.stderr


def test_kill_during_repair(tmp_path, data):
    """Killed at any moment, it has done no harm: the next one ends as if nothing had happened."""
    spoil(data / "w.000", frames(data)[5], 300)
    want = None
    for wait_ms in range(0, 40, 2):
        work = tmp_path / "work"
        shutil.copytree(data, work)
        process = subprocess.Popen([TARRY, "check", "--repair", str(work)],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(wait_ms / 1000)
        process.kill()
        process.wait()
        assert tarry("check", "--repair", work).returncode == 0
        after, status = jobs(work)
        assert status == 0
        want = want or after
        assert after == want
        shutil.rmtree(work)


# ---- export ----


def test_export_fields(data):
    with Server(data) as server:
        server.ready()
        with Client(server.port()) as client:
            client.say("use bytes")
            client.put(b"\xff\x00", pri=7, delay=3600, ttr=90)
            client.say("use grave")
            client.say("watch grave")
            number = client.put(b"text")
            assert client.reserve() == (number, b"text")
            assert client.say(f"bury {number} 1") == "BURIED"
        assert server.stop() == 0
    rows = {row["topic"]: row for row in jobs(data)[0].values()}
    assert rows["bytes"]["body_base64"] == "/wA="
    assert (rows["bytes"]["priority"], rows["bytes"]["ttr"]) == (7, "1m30s")
    assert rows["bytes"]["state"] == "delayed"
    assert 0 < rows["bytes"]["at"] / 1000 - time.time() < 3601
    dead = rows["grave"]
    assert (dead["state"], dead["dead_why"], dead["attempts"]) == ("dead", "buried", 1)
    assert dead["body"] == "text"


def test_export_into_a_closed_pipe(data):
    process = subprocess.Popen([TARRY, "export", str(data)], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    process.stdout.close()
    assert process.wait(timeout=PATIENCE_S) in (1, -signal.SIGPIPE)
    process.stderr.close()


# ---- the bar ----


def on_terminal(*args):
    """Runs tarry with a terminal as stderr: what it wrote there, and to stdout."""
    main, other = pty.openpty()
    process = subprocess.Popen([TARRY, *map(str, args)], stdout=subprocess.PIPE, stderr=other)
    os.close(other)
    said = b""
    while True:
        ready, _, _ = select.select([main], [], [], PATIENCE_S)
        try:
            more = os.read(main, 65536) if ready else b""
        except OSError:
            more = b""
        if not more:
            break
        said += more
    out = process.stdout.read()
    process.stdout.close()
    process.wait()
    os.close(main)
    return said, out


def test_no_bar_in_pipes(data):
    done = tarry("check", data)
    assert "\r" not in done.stdout + done.stderr
    said, out = on_terminal("check", data)
    assert b"\r" not in out  # whatever a terminal got, stdout is for programs
    assert said == b"" or b"reading [" in said


# ---- serve --read-only ----


def test_serve_read_only(data):
    before = bytes_of(data)
    with Server(data, "--read-only") as server:
        assert server.ready()[0] == 25
        assert "read-only" in server.said
        with Client(server.port()) as client:
            assert b"orders" in client.ask("list-tubes").body
            assert client.say("put 1 0 60 1\r\nx") == "DRAINING"
            assert client.say("delete 11") == "INTERNAL_ERROR"
            assert client.say("reserve-with-timeout 0") == "INTERNAL_ERROR"
            assert client.peek(11) is not None
            assert client.table("stats-tube orders")["current-jobs-delayed"] == "20"
        with Server(data, "--read-only") as other:  # many may look
            other.ready()
            assert other.stop() == 0
        assert tarry("check", data).returncode == 0
        refused = tarry("serve", "--data", data, "--beanstalk", "127.0.0.1:0")
        assert refused.returncode == 1
        assert server.stop() == 0
    assert bytes_of(data) == before


def test_serve_read_only_damaged(data):
    spoil(data / "w.000", frames(data)[5], 300)
    before = bytes_of(data)
    with web_server(data, "--read-only") as server:
        found = server.ready()[0]
        assert 24 <= found <= 25
        assert "damaged" in server.said
        with Client(server.port()) as client:
            assert client.peek(30) is not None
        web = Web(web_port(server))
        answer = web.get("/readyz")
        assert answer.status == 503 and [r["code"] for r in answer.json["reasons"]] == ["damaged"]
        assert web.get("/v1/stats").json["damage"]["damaged"] is True
        web.close()
        assert server.stop() == 0
    assert bytes_of(data) == before


def test_serve_read_only_needs_a_store(tmp_path):
    done = tarry("serve", "--read-only", "--data", tmp_path / "none", *LOCAL)
    assert done.returncode == 1
    assert re.search("no such directory|no store", done.stderr)
    assert not (tmp_path / "none").exists()
