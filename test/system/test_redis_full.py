"""A Redis that has reached its maxmemory: new jobs are refused (507), all else goes on, so that those
who take jobs empty it."""
import concurrent.futures
import time

from on_redis import Redis
from redis_cluster import until
from web import Web, web_port, web_server

BODY = b"x" * 65536


def fill(web, topic):
    """Pushes until Redis is full: the ids of the jobs that were taken."""
    ids = []
    while True:
        said = web.post(f"/v1/topics/{topic}/jobs", BODY, delay="1h" if len(ids) % 4 == 3 else "0s")
        if said.status == 507:
            return ids
        assert said.status in (200, 201), said
        ids.append(said.json["id"])
        assert len(ids) < 1000


def test_a_full_redis_can_be_emptied(tmp_path):
    with Redis("--maxmemory", "8mb") as redis, web_server(tmp_path / "a", *redis.tarry()) as node:
        web = Web(web_port(node))
        for name in ("other", "t"):
            web.push(name, b"first")
        ids = fill(web, "t")
        assert len(ids) > 20
        assert web.get("/readyz").json["reasons"][0]["code"] == "redis_full"

        # Hand-outs, their ends, changes and looks are no new jobs.
        taken = web.reserve("t", count=3)
        assert len(taken) == 3
        assert web.post(f"/v1/jobs/{taken[0]['id']}/ack", lease=taken[0]["lease"]).status in (200, 204)
        assert web.post(f"/v1/jobs/{taken[1]['id']}/release", lease=taken[1]["lease"]).status in (200, 204)
        assert web.post(f"/v1/jobs/{taken[2]['id']}/bury", lease=taken[2]["lease"]).status in (200, 204)
        assert web.post(f"/v1/jobs/{taken[2]['id']}/kick", b"").status in (200, 204)
        assert web.get(f"/v1/jobs/{ids[3]}").json["state"] == "delayed"
        assert web.post(f"/v1/jobs/{ids[3]}/fire", b"").status in (200, 204)
        assert web.ask("DELETE", f"/v1/jobs/{ids[-1]}").status in (200, 204)
        assert web.get("/v1/topics/t").json["reserved"] == 0
        assert web.post("/v1/topics/other/purge", b"").status in (200, 204)

        # It stays full until enough are gone, and then takes new ones again.
        assert web.post("/v1/topics/t/jobs", BODY * 4).status == 507
        while (got := web.reserve("t", count=8)):
            for job in got:
                assert web.post(f"/v1/jobs/{job['id']}/ack", lease=job["lease"]).status in (200, 204)
        assert web.post("/v1/topics/t/jobs", BODY).status in (200, 201)
        assert web.get("/readyz").status == 200
        web.close()


def test_a_redis_that_is_not_full_any_more(tmp_path):
    """It is known, though nobody pushes: who is not ready is not asked."""
    with Redis("--maxmemory", "8mb") as redis, web_server(tmp_path / "a", *redis.tarry()) as node:
        web, client = Web(web_port(node)), redis.client()
        client("CONFIG", "SET", "maxmemory", "1mb")
        fill(web, "t")
        time.sleep(2.5)
        assert web.get("/readyz").json["reasons"][0]["code"] == "redis_full", "it is asked, and still full"
        client("CONFIG", "SET", "maxmemory", 0)
        until(lambda: web.get("/readyz").status == 200, patience=40)  # it is asked all the time
        client.close()
        web.close()


def test_who_waits_is_told_though_it_is_full(tmp_path):
    """Wake-ups of other nodes are no new jobs either."""
    with Redis("--maxmemory", "8mb") as redis:
        flags = redis.tarry()
        with web_server(tmp_path / "a", *flags) as one, web_server(tmp_path / "b", *flags) as two:
            a, b = Web(web_port(one)), Web(web_port(two))
            job = a.push("w", b"x", ttr="1h")
            taken = a.reserve("w")
            fill(a, "t")
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                waits = pool.submit(b.reserve, "w", wait="40s")
                client = redis.client()
                until(lambda: client("EXISTS", *client("KEYS", "*:w:w") or ["none"]) == 1)
                assert a.post(f"/v1/jobs/{job['id']}/release", lease=taken[0]["lease"]).status in (200, 204)
                assert [got["id"] for got in waits.result()] == [job["id"]]  # it asks by itself after 45 s
                client.close()
            a.close()
            b.close()
