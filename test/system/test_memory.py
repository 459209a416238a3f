"""memory.limit: what is new is refused when it is reached, all else goes on, and nothing dies."""
import os
import re
import signal

import pytest

from client import Client
from harness import sanitized, tarry
from web import Web, web_port, web_server

LIMIT_MIB = 128
FLAGS = ("--set", f"memory.limit={LIMIT_MIB}MiB")
WINDOW = 500


def start(tmp_path, *flags):
    return web_server(tmp_path / "store", *(flags or FLAGS))


def resident_mib(server):
    with open(f"/proc/{server.process.pid}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+) kB", status.read())[1]) / 1024


def memory(web):
    return web.get("/v1/stats").json["memory"]


def fill_with_topics(client):
    """Puts one job into each of ever more tubes until one is refused: how many were taken."""
    taken, number, refused = 0, 0, False
    while not refused:
        lines = b"".join(b"use t%d\r\n" % (number + i) + client.put_bytes(b"x", delay=3600)
                         for i in range(WINDOW))
        number += WINDOW
        client.send(lines)
        for _ in range(WINDOW):
            use, put = client.reply(), client.reply()
            assert use.word in ("USING", "OUT_OF_MEMORY"), use
            assert put.word in ("INSERTED", "OUT_OF_MEMORY"), put
            refused = refused or put.word == "OUT_OF_MEMORY"
            taken += put.word == "INSERTED"
        assert taken < 1_000_000, "it never fills"
    return taken


def test_budgets_are_cut_and_shown(tmp_path):
    with start(tmp_path) as server:
        web = Web(web_port(server))
        shown = memory(web)
        assert shown["limit"] == LIMIT_MIB << 20
        assert shown["connections_limit"] == LIMIT_MIB << 17
        assert shown["history_limit"] == LIMIT_MIB << 16
        assert LIMIT_MIB << 19 < shown["engine_limit"] < LIMIT_MIB << 20
        assert 0 < shown["engine_used"] < shown["engine_limit"]
        assert shown["near_jobs_limit"] < 2_500_000 and shown["far_jobs_limit"] < 1_000_000
        assert shown["refusing"] is False
        setting = web.get("/v1/config").json["settings"]["memory.limit"]
        assert setting == {"value": f"{LIMIT_MIB}MiB", "from": "flag"}
        web.close()
        assert server.stop() == 0
    with start(tmp_path, "--set", "memory.limit=off") as server:
        web = Web(web_port(server))
        assert memory(web)["limit"] is None and memory(web)["near_jobs_limit"] == 2_500_000
        web.close()
    with start(tmp_path, "--set", "memory.limit=50%") as server:
        web = Web(web_port(server))
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        assert LIMIT_MIB << 20 <= memory(web)["limit"] <= machine // 2
        web.close()


@pytest.mark.parametrize("wrong", ["1MiB", "127MiB", "0%", "100%", "-1", "much", "1T"])
def test_limits_that_make_no_sense(tmp_path, wrong):
    done = tarry("serve", "--data", tmp_path, "--set", f"memory.limit={wrong}")
    assert done.returncode == 2 and "memory.limit" in done.stderr and "128MiB" in done.stderr


@pytest.mark.skipif(sanitized(), reason="memory is counted, but more is used")
def test_full_memory_refuses_what_is_new(tmp_path):
    with start(tmp_path) as server:
        web = Web(web_port(server))
        with Client(server.port()) as client:
            ready = client.put(b"here")
            taken = fill_with_topics(client)
            while web.post("/v1/topics/default/jobs", b"x").status == 201:  # less than a new tube needs
                taken += 1
                assert taken < 1_000_000
            assert memory(web)["refusing"] is True
            assert "memory_short" in [reason["code"] for reason in web.get("/readyz").json["reasons"]]
            print(f"tubes={taken} resident={resident_mib(server):.0f} MiB {memory(web)}")
            assert resident_mib(server) < 1.2 * LIMIT_MIB
            for topic in ("default", "new-one"):
                refused = web.post(f"/v1/topics/{topic}/jobs", b"x")
                assert refused.status == 503 and refused.code == "no_memory", refused
            client.send(client.put_bytes(b"x"))
            assert client.reply().word == "OUT_OF_MEMORY"
            # All else goes on.
            assert client.reserve() == (ready, b"here")
            assert client.say(f"release {ready} 5 0") == "RELEASED"
            job = web.reserve("default")[0]
            assert web.post(f"/v1/jobs/{job['id']}/ack", lease=job["lease"]).status == 200
            assert web.ask("DELETE", "/v1/topics/t1?force=true").status == 200
        web.close()
        assert server.stop(signal.SIGKILL) == -signal.SIGKILL
    with start(tmp_path, *FLAGS, "--sync", "never") as server:  # and it opens with the same limit
        assert server.ready()[0] == taken - 1
        web = Web(web_port(server))
        assert resident_mib(server) < 1.2 * LIMIT_MIB
        for number in range(2, 7 * taken // 10):
            assert web.ask("DELETE", f"/v1/topics/t{number}?force=true").status in (200, 404)
        assert memory(web)["refusing"] is False
        assert web.get("/readyz").status == 200
        web.push("new-one", b"x")  # by itself, now that there is room
        web.close()
        assert server.stop() == 0


@pytest.mark.skipif(sanitized(), reason="takes long")
def test_many_far_jobs_fit(tmp_path):
    """More jobs than fit the memory go to the disk: none is refused."""
    jobs = 400_000
    with start(tmp_path, *FLAGS, "--sync", "never") as server:
        web = Web(web_port(server))
        with Client(server.port()) as client:
            put = client.put_bytes(b"x" * 300, delay=7200)
            for _ in range(jobs // 1000):
                client.send(put * 1000)
                for _ in range(1000):
                    reply = client.reply()
                    assert reply.word == "INSERTED", reply
        shown = memory(web)
        print(f"resident={resident_mib(server):.0f} MiB {shown}")
        assert not shown["refusing"] and resident_mib(server) < 1.5 * LIMIT_MIB
        assert web.get("/v1/stats").json["delayed"] == jobs
        web.close()
        assert server.stop() == 0
