"""Housekeeping of rows: the dead that are kept for too long or are too many; jobs of a dead node's connections."""
import json
import re
import signal
import time

from client import Client
from on_redis import served
from redis_cluster import until as wait_until
from test_schedules_on_redis import LEASE
from web import ready_web, web_server


def policy(web, topic, **fields):
    assert web.ask("PUT", f"/v1/topics/{topic}", json.dumps(fields)).status in (200, 201)


def bury(web, topic, count):
    """Dead jobs, the oldest first."""
    ids = [web.push(topic, str(i).encode())["id"] for i in range(count)]
    for _ in ids:
        job = web.reserve(topic, wait="60s")[0]
        assert web.post(f"/v1/jobs/{job['id']}/bury", lease=job["lease"]).status == 200
    return ids


def dead(web, topic):
    return [job["id"] for job in web.get("/v1/jobs", topic=topic, state="dead").json["jobs"]]


def test_dead_jobs_are_kept_for_so_long_and_so_many(tmp_path, both):
    flags = both.tarry()
    with web_server(tmp_path / "a", *flags) as server:
        web = ready_web(server)
        policy(web, "few", dead_max=3)
        policy(web, "short", dead_keep="1s")
        policy(web, "none", dead_max=0)
        kept = bury(web, "plain", 2)
        few = bury(web, "few", 8)
        bury(web, "none", 2)
        began = time.monotonic()
        bury(web, "short", 4)
        wait_until(lambda: dead(web, "few") == few[-3:])  # the oldest go
        wait_until(lambda: dead(web, "none") == [])
        wait_until(lambda: dead(web, "short") == [])
        assert time.monotonic() - began >= 1
        assert dead(web, "plain") == kept and dead(web, "few") == few[-3:]
        told = web.get("/v1/topics/few").json
        assert told["dead"] == 3 and told["ready"] == 0, told
        # One that is kicked is not among the dead any more.
        assert web.post(f"/v1/jobs/{few[-1]}/kick").status == 200
        bury_more = bury(web, "few", 1)  # it, or the new one: whichever comes first is dead again
        assert bury_more and len(dead(web, "few")) == 3
        assert server.stop() == 0, server.said


def test_what_time_does_is_counted(tmp_path, both):
    """Leases that ran out, jobs that expired and dead ones that were dropped, whoever finds out."""
    with web_server(tmp_path / "n", *both.tarry()) as node:
        web = ready_web(node)

        def counts(topic):
            text = web.get("/metrics").body.decode()
            return [int(re.search(rf'^tarry_jobs_{what}_total{{topic="{topic}"}} (\d+)', text, re.M)[1])
                    for what in ("expired", "dead", "retried", "dropped", "cancelled")]

        for topic in ("late", "last", "lost"):
            policy(web, topic, dead_keep="1s", retries=3 if topic == "lost" else 0)
            web.push(topic, b"x", **({"ttl": "1ms", "delay": "1ms"} if topic == "late" else {}))
        for topic in ("last", "lost"):
            assert len(web.reserve(topic, ttr="1s", wait="60s")) == 1
        # Who asks for a job brings it about; else the owner looks once a minute.
        asked = lambda topic: (web.reserve(topic), counts(topic))[1]
        wait_until(lambda: counts("late") == [1, 1, 0, 1, 0])
        wait_until(lambda: asked("last")[:2] == [0, 1])
        wait_until(lambda: asked("lost") == [0, 0, 1, 0, 0])
        wait_until(lambda: asked("last") == [0, 1, 0, 1, 0])
        assert node.stop() == 0, node.said


def test_jobs_of_a_dead_nodes_connections_come_back(tmp_path, both):
    """Long before their time to run ends; leases of HTTP stay."""
    flags = [*both.tarry(), *LEASE]
    with web_server(tmp_path / "a", *flags) as first, web_server(tmp_path / "b", *flags) as second:
        a, b = ready_web(first), ready_web(second)
        share = lambda node: node.get("/v1/stats").json["redis"]["slots_owned"]
        wait_until(lambda: share(a) == share(b) == 128)
        names = [f"t{i}" for i in range(6)]  # in slots of both
        with Client(served(first)) as client:
            held = []
            for name in names:
                assert client.ask(f"use {name}").word == "USING"
                assert client.ask(f"watch {name}").word == "WATCHING"
                held.append(client.put(name.encode(), ttr=3600))
                assert client.reserve(wait_s=60) == (held[-1], name.encode())
            kept = b.push("http", b"x", ttr="1h")
            assert a.reserve("http", wait="60s")[0]["id"] == kept["id"]
            first.stop(signal.SIGKILL)
        for name, job in zip(names, held):
            assert [int(got["id"]) for got in b.reserve(name, wait="60s")] == [job]
        assert b.get(f"/v1/jobs/{kept['id']}").json["state"] == "reserved"
        assert second.stop() == 0, second.said
