"""Copies of a store that is in use, over HTTP: whole, cut short, and started on."""
import json
import os
import random
import signal
import threading
import time

from harness import PATIENCE_S, sanitized, tarry
from web import Web, web_port, web_server

BIG = 60000  # bytes of a body: a few hundred jobs fill a log file


def server_on(tmp_path, name="store", *flags):
    (tmp_path / "copies").mkdir(exist_ok=True)
    return web_server(tmp_path / name, "--set", f"store.backup_root={tmp_path / 'copies'}", *flags)


def backup(web, name):
    return web.ask("POST", "/v1/backup", dir=name)


def check_jobs(folder, jobs, gone=()):
    """The folder is found fine, and a server on it has exactly these jobs, {id: body}, and gives other ids."""
    found = tarry("check", folder)
    assert found.returncode == 0, found.stdout
    with web_server(folder) as server:
        assert server.ready()[0] == len(jobs)
        web = Web(web_port(server))
        for number, body in jobs.items():
            assert web.get(f"/v1/jobs/{number}").json["body"] == body
        for number in gone:
            assert web.get(f"/v1/jobs/{number}").status == 404
        if jobs:
            assert int(web.push("t", b"x")["id"]) > max(map(int, jobs)) + 2 ** 31
        web.close()
        assert server.stop() == 0


def test_a_copy_is_a_store(tmp_path):
    with server_on(tmp_path) as server:
        web = Web(web_port(server))
        jobs = {web.push("t", f"{n}".encode(), delay="1h")["id"]: f"{n}" for n in range(50)}
        cancelled = next(iter(jobs))
        assert web.ask("DELETE", f"/v1/jobs/{cancelled}").status == 200
        del jobs[cancelled]
        answer = backup(web, "one")
        assert answer.status == 200 and answer.json["bytes"] > 0
        later = web.push("t", b"later", delay="1h")["id"]
        assert backup(web, "one").status == 409
        assert backup(web, "../out").status == 400
        check_jobs(tmp_path / "copies/one", jobs, [cancelled, later])  # beside the running store
        assert backup(web, "two").status == 200
        assert server.stop() == 0
    check_jobs(tmp_path / "copies/two", {**jobs, later: "later"})


def test_runs_are_linked(tmp_path):
    """Enough far jobs for run files: the copy has the same ones, and lives on without the store."""
    count = 300 if sanitized() else 700
    with server_on(tmp_path, "store", "--sync", "never", "--set", "memory.far=1000") as server:
        web = Web(web_port(server))
        jobs = {}
        for n in range(count):
            body = f"{n} ".ljust(BIG, "x")
            jobs[web.push("t", body.encode(), delay="1h")["id"]] = body
        end = time.monotonic() + PATIENCE_S  # ten idle seconds, then promotion
        while web.get("/v1/stats").json["store"]["groups"] == 0:  # a file is there before it counts
            assert time.monotonic() < end, "no run files"
            time.sleep(0.1)
        answer = backup(web, "one")
        assert answer.status == 200
        runs = list((tmp_path / "copies/one").glob("g*.run"))
        assert runs and all(os.stat(run).st_nlink == 2 for run in runs)
        server.stop(signal.SIGKILL)
    for file in (tmp_path / "store").iterdir():
        file.unlink()
    sample = dict(random.Random(1).sample(sorted(jobs.items()), 40))
    with web_server(tmp_path / "copies/one") as server:
        assert server.ready()[0] == count
        web = Web(web_port(server))
        for number, body in sample.items():
            assert web.get(f"/v1/jobs/{number}").json["body"] == body
        assert server.stop() == 0


def test_killed_in_the_middle(tmp_path):
    """The store is whole, and the copy is whole or says that it is not; then it is made again."""
    jobs, dice, cut = {}, random.Random(1), 0
    for round_ in range(6):
        with server_on(tmp_path) as server:
            web = Web(web_port(server))
            assert server.ready()[0] == len(jobs)
            for n in range(200):
                body = f"{round_}/{n} ".ljust(20000, "x")
                jobs[web.push("t", body.encode(), delay="1h")["id"]] = body
            thread = threading.Thread(target=ask_and_die, args=(web_port(server),))
            thread.start()
            time.sleep(dice.uniform(0, 0.03))
            server.stop(signal.SIGKILL)
            thread.join()
        folder = tmp_path / "copies/one"
        if (folder / "backup.part").exists():
            cut += 1
            with web_server(folder) as server:
                assert server.ended() == 3
                assert "not finished" in server.said
        elif folder.exists() and list(folder.iterdir()):
            check_jobs(folder, jobs)
            for file in folder.iterdir():
                file.unlink()
    with server_on(tmp_path) as server:
        web = Web(web_port(server))
        if not (folder / "backup.part").exists() and folder.exists() and list(folder.iterdir()):
            os.rename(folder, tmp_path / "copies/other")
        assert backup(web, "one").status == 200
        assert server.stop() == 0
    check_jobs(folder, jobs)
    print(f"{cut} of 6 were cut short")


def ask_and_die(port):
    try:
        backup(Web(port), "one")
    except OSError:
        pass
    except Exception as error:  # http.client says it in several ways
        assert "Remote" in type(error).__name__ or "Bad" in type(error).__name__, error


def test_without_a_root_no_copies(tmp_path):
    with web_server(tmp_path / "store") as server:
        assert backup(Web(web_port(server)), "one").status == 501
        assert server.stop() == 0


# ---- the command ----


def test_backup_command(tmp_path):
    with server_on(tmp_path) as server:
        port = web_port(server)
        web = Web(port)
        jobs = {web.push("t", b"one", delay="1h")["id"]: "one"}
        done = tarry("backup", "--server", f"http://127.0.0.1:{port}/", "monday")
        assert (done.returncode, done.stderr) == (0, "")
        assert str(tmp_path / "copies/monday") in done.stdout
        again = tarry("backup", "--server", f"127.0.0.1:{port}", "monday")
        assert again.returncode == 1 and "409" in again.stderr and "another" in again.stderr
        env = {**os.environ, "TARRY_SERVER": f"127.0.0.1:{port}", "TARRY_TOKEN": "abc"}
        whole = tarry("backup", "--json", tmp_path / "copies/tuesday", env=env)
        assert whole.returncode == 0, whole.stderr
        assert json.loads(whole.stdout)["dir"] == str(tmp_path / "copies/tuesday")
        deep = tarry("backup", "no/such", env=env)
        assert deep.returncode == 1 and "409" in deep.stderr and "not there" in deep.stderr
        out = tarry("backup", f"--server=127.0.0.1:{port}", "/elsewhere")
        assert out.returncode == 2 and "400" in out.stderr
        web.close()
        assert server.stop() == 0
        gone = tarry("backup", "--server", f"127.0.0.1:{port}", "x")
        assert gone.returncode == 1 and "running" in gone.stderr
    check_jobs(tmp_path / "copies/monday", jobs)
    check_jobs(tmp_path / "copies/tuesday", jobs)


def test_backup_command_without_a_root(tmp_path):
    with web_server(tmp_path / "store") as server:
        done = tarry("backup", "--server", f"127.0.0.1:{web_port(server)}", "x")
        assert done.returncode == 1 and "501" in done.stderr and "store.backup_root" in done.stderr


def test_backup_command_wrong_usage():
    for args in ([], ["a", "b"], ["--what", "a"], ["--server", "ftp://x", "a"], ["--server"],
                 ["--token", "", "a"], ["--token", "a b", "a"], ["--server", "", "a"]):
        done = tarry("backup", *args)
        assert done.returncode == 2 and done.stderr.startswith("tarry: "), (args, done)
    done = tarry("backup", "--help")
    assert done.returncode == 0 and done.stdout == tarry("help", "backup").stdout
