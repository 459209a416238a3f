"""A Redis that has reached its maxmemory: new jobs are refused (507), all else goes on, so that those
who take jobs empty it."""
from on_redis import Redis
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
