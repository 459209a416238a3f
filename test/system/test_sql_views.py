"""What is asked of all jobs at once, and of jobs that are gone, where rows in a database are the truth
(`--engine redis` with sql.url)."""
import concurrent.futures
import json
import time

import pytest

from harness import tarry
from on_sql import database_of
from redis_cluster import until
from test_http import is_error, test_list_and_bulk, test_purge_one_state  # noqa: F401 (run here)
from web import Web, ready_web, web_server


@pytest.fixture
def flags(both):
    both.redis.empty()  # of the last one's
    return [*both.tarry(), "--set", "http.classic=on"]


# ---- restore ----


def drop_entries(both, want):
    """Takes all jobs out of Redis, when so many are there, but leaves what says that they are there."""
    client = both.redis.client()
    take = ("local n, keys = 0, redis.call('KEYS', '*') for _, k in ipairs(keys) do if k:match(':h$') then "
            "n = n + redis.call('HLEN', k) end end if n ~= tonumber(ARGV[1]) then return n end for _, k in ipairs(keys) do "
            "if k:match(':h$') or k:match(':store$') or k:match(':ready$') or k:match(':prep$') then redis.call('DEL', k) end "
            "end return 'done'")

    def dropped():
        client.send("EVAL", take, "0", str(want))
        return client.read() == b"done"
    until(dropped)
    client.close()


def test_restore(both, web):
    ready = {web.push("t", f"r{i}".encode())["id"] for i in range(5)}
    soon = web.push("t", b"soon", delay="8m")["id"]  # within cluster.hot_window
    dead = web.push("t", b"dead")["id"]
    assert web.post(f"/v1/jobs/{dead}/bury", force="true").status == 200
    drop_entries(both, 6)
    assert web.reserve("t") == []
    assert web.post("/v1/restore").json == {"restoring": True, "buried": 0}
    got = set()
    until(lambda: got.update(job["id"] for job in web.reserve("t", count="10")) or got >= ready)
    assert got == ready
    assert web.get(f"/v1/jobs/{dead}").json["state"] == "dead"
    assert web.get(f"/v1/jobs/{soon}").json["state"] == "delayed"


def test_restore_of_one_job(both, web):
    job = web.push("t", b"x")["id"]
    other = web.push("t", b"y")["id"]
    drop_entries(both, 2)
    assert web.reserve("t") == []
    assert web.post(f"/v1/jobs/{job}/restore").json["state"] == "ready"
    assert [got["id"] for got in web.reserve("t", wait="60s")] == [job]
    assert web.reserve("t") == []
    assert web.get(f"/reStore/{other}").json["state"] == "ready"
    assert [got["id"] for got in web.reserve("t", wait="60s")] == [other]
    is_error(web.post("/v1/jobs/7/restore"), 404, "not_found")
    dead = web.push("t", b"dead")["id"]
    assert web.post(f"/v1/jobs/{dead}/bury", force="true").status == 200
    is_error(web.post(f"/v1/jobs/{dead}/restore"), 409, "wrong_state")


def test_restore_that_buries(web, server):
    overdue = {web.push("t", b"x")["id"] for _ in range(3)}
    later = web.push("t", b"x", delay="1h")["id"]
    done = tarry("restore", "--bury", "--server", f"http://127.0.0.1:{server.web}")
    assert done.returncode == 0 and "buried 3 jobs" in done.stdout, done
    assert {job["id"] for job in web.get("/v1/jobs", topic="t", state="dead").json["jobs"]} == overdue
    assert web.get(f"/v1/jobs/{later}").json["state"] == "delayed"
    assert web.get("/reStore").json == {"restoring": True, "buried": 0}
    done = tarry("restore", later, "--json", "--server", f"http://127.0.0.1:{server.web}")
    assert json.loads(done.stdout)["state"] == "delayed", done


# ---- history ----


def history(web, job):
    return [(event["state"], event["why"]) for event in web.get(f"/v1/jobs/{job}/history").json["events"]]


def test_history_of_jobs_that_are_gone(web):
    job = web.push("t", b"x", key="k")["id"]
    assert history(web, job) == [("ready", "pushed")]
    taken = web.reserve("t", wait="60s")[0]
    assert history(web, job) == [("ready", "pushed"), ("reserved", "handed out")]
    assert web.post(f"/v1/jobs/{job}/ack", lease=taken["lease"]).status in (200, 204)
    assert history(web, job) == [("ready", "pushed"), ("reserved", "handed out"), ("gone", "acked")]
    told = web.get(f"/v1/jobs/{job}/history").json["events"]
    assert [event["at_ms"] for event in told] == sorted(event["at_ms"] for event in told)
    job = web.push("t", b"x", delay="1h")["id"]
    assert history(web, job) == [("delayed", "pushed")]
    assert web.ask("DELETE", f"/v1/jobs/{job}").status == 200
    assert history(web, job) == [("delayed", "pushed"), ("gone", "cancelled")]
    job = web.push("t", b"x")["id"]  # the delay of a release is none of its push
    for _ in range(2):
        taken = web.reserve("t", wait="60s")[0]
        assert web.post(f"/v1/jobs/{job}/release", lease=taken["lease"], delay="1s").status == 200
        assert history(web, job)[0] == ("ready", "pushed")
    assert web.ask("DELETE", f"/v1/jobs/{job}").status == 200
    assert history(web, job)[0] == ("ready", "pushed")
    is_error(web.get(f"/v1/jobs/{int(job) + (1 << 40)}/history"), 404, "not_found")
    is_error(web.get("/v1/jobs/7/history"), 404, "not_found")


def test_full_history(web):
    for how, want in (("full", ["pushed", "handed out", "touched", "released", "handed out", "dead", "kicked", "gone"]),
                      ("off", None)):
        assert web.ask("PUT", f"/v1/topics/{how}", json.dumps({"history": how, "backoff": "1ms"})).status in (200, 201)
        job = web.push(how, b"x")["id"]
        taken = web.reserve(how, wait="60s")[0]
        assert web.post(f"/v1/jobs/{job}/touch", lease=taken["lease"]).status == 200
        assert web.post(f"/v1/jobs/{job}/release", lease=taken["lease"], delay="0").status == 200
        taken = web.reserve(how, wait="60s")[0]
        assert web.post(f"/v1/jobs/{job}/bury", lease=taken["lease"]).status == 200
        if want:
            assert history(web, job)[-1] == ("dead", "buried")
        assert web.post(f"/v1/jobs/{job}/kick").status == 200
        assert web.ask("DELETE", f"/v1/jobs/{job}").status == 200
        if want:
            told = [what for _, what in history(web, job)]
            assert [{"buried": "dead", "cancelled": "gone"}.get(what, what) for what in told] == want
        else:
            is_error(web.get(f"/v1/jobs/{job}/history"), 404, "not_found")


def days_of(both, name):
    return both.maria.ask("SELECT PARTITION_NAME FROM information_schema.PARTITIONS WHERE TABLE_NAME = 'flow' AND "
                          f"TABLE_SCHEMA = '{name}' ORDER BY PARTITION_ORDINAL_POSITION").split()


def old_history(both, name, today):
    """Events of two days that are over, and one of today, in a table that has a partition for each."""
    both.maria.ask(f"ALTER TABLE flow REORGANIZE PARTITION rest INTO (PARTITION d{today - 9} VALUES LESS THAN ({today - 8}),"
                   f"PARTITION d{today - 8} VALUES LESS THAN ({today - 7}), PARTITION rest VALUES LESS THAN MAXVALUE)", name)
    for day in (today - 9, today - 8, today):
        both.maria.ask(f"INSERT INTO flow (id, at, n, day) VALUES ({1024 + day}, {day * 86400 * 10 ** 6}, 0, {day})", name)


@pytest.mark.parametrize("rights", ["ALL", "SELECT, INSERT, UPDATE, DELETE"])
def test_days_that_are_over_are_forgotten(tmp_path, both, rights):
    today = int(time.time()) // 86400
    flags = both.database()
    name = flags[3].partition("=")[2]
    old_history(both, name, today)
    if rights != "ALL":
        both.maria.ask(f"REVOKE ALL ON {name}.* FROM {name}@'127.0.0.1'")
        both.maria.ask(f"GRANT {rights} ON {name}.* TO {name}@'127.0.0.1'")
    with web_server(tmp_path / "unused", *both.redis.tarry(), *flags) as made:
        web = ready_web(made)
        until(lambda: both.maria.ask("SELECT day FROM flow", name).split() == [str(today)])
        if rights == "ALL":
            assert days_of(both, name)[:2] == [f"d{today}", f"d{today + 1}"]
        job = web.push("t", b"x")["id"]
        assert web.ask("DELETE", f"/v1/jobs/{job}").status == 200
        assert history(web, job)[-1] == ("gone", "cancelled")
        assert web.get("/readyz").status == 200
        web.close()
        assert made.stop() == 0, made.said


# ---- changes of many ----


def bulk(web, what, **args):
    answer = web.post(f"/v1/jobs/{what}", **args)
    assert answer.status == 200, answer
    return answer.json


def test_bulk_cancel_and_kick(web):
    later = [web.push("t", b"x", delay="1h", tag="a" if i % 2 else "b")["id"] for i in range(300)]
    ready = web.push("t", b"x", tag="a")["id"]
    held = web.push("u", b"x", tag="a")["id"]
    assert [job["id"] for job in web.reserve("u", wait="60s")] == [held]
    assert bulk(web, "cancel", tag="a", dry_run="true") == {"matched": 152, "done": 0, "more": False}
    assert bulk(web, "cancel", topic="t", tag="a", state="delayed", limit="100") == {"matched": 100, "done": 100, "more": True}
    assert bulk(web, "cancel", tag="a") == {"matched": 52, "done": 51, "more": False}  # one is reserved
    is_error(web.get(f"/v1/jobs/{ready}"), 404, "not_found")
    told = web.get("/v1/topics/t").json
    assert (told["delayed"], told["ready"]) == (150, 0), told
    assert bulk(web, "cancel", topic="t", due_to="2020-01-01T00:00:00Z") == {"matched": 0, "done": 0, "more": False}
    for job in later[0:6:2]:
        assert web.post(f"/v1/jobs/{job}/bury", force="true").status == 200
    assert bulk(web, "kick", topic="t") == {"matched": 3, "done": 3, "more": False}
    assert {job["id"] for job in web.reserve("t", count="10", wait="60s")} <= set(later[0:6:2])


def test_bulk_shift(web):
    first = {web.push("t", b"x", delay=f"{600 + i}s")["id"]: web.push("t", b"y", delay="1h") for i in range(150)}
    before = {job: web.get(f"/v1/jobs/{job}").json["due_ms"] for job in list(first)[:3]}
    answer = bulk(web, "shift", topic="t", by="7s", due_to="2100-01-01T00:00:00Z")
    assert answer == {"matched": 300, "done": 300, "more": False}
    for job, due_ms in before.items():
        assert web.get(f"/v1/jobs/{job}").json["due_ms"] == due_ms + 7000
    assert bulk(web, "shift", topic="t", to="2020-01-01T00:00:00Z")["done"] == 300  # the past means now
    assert len(web.reserve("t", count="300", wait="60s")) > 0
    told = web.get("/v1/topics/t").json
    assert told["delayed"] == 0 and told["ready"] + told["reserved"] == 300, told


def test_a_shift_goes_on_at_another_node(tmp_path, both):
    flags = both.tarry()
    with web_server(tmp_path / "a", *flags) as one, web_server(tmp_path / "b", *flags) as two:
        a, b = ready_web(one), ready_web(two)
        jobs = [a.push("t", b"x", delay="1h") for _ in range(40)]
        cursor, done = None, 0
        for i in range(20):
            web = (a, b)[i % 2]
            answer = bulk(web, "shift", topic="t", by="1h", limit="7", **({"cursor": cursor} if cursor else {}))
            cursor, done = answer.get("cursor"), done + answer["done"]
            if not answer["more"]:
                break
        assert done == 40 and not answer["more"], answer
        for job in jobs:
            assert a.get(f"/v1/jobs/{job['id']}").json["due_ms"] == job["due_ms"] + 3600_000
        for web, made in ((a, one), (b, two)):
            web.close()
            assert made.stop() == 0, made.said


# ---- purges ----


def test_purge(web, both, flags):
    gone = [web.push("t", b"x", delay="1h", key=f"k{i}")["id"] for i in range(300)]
    gone += [web.push("t", b"x")["id"] for _ in range(20)]
    held = web.reserve("t", wait="60s")[0]
    assert web.post(f"/v1/jobs/{gone[0]}/bury", force="true").status == 200
    other = web.push("u", b"y")["id"]
    assert web.post("/v1/topics/t/purge").json == {"purged": 320}
    told = web.get("/v1/topics/t").json
    assert [told[state] for state in ("delayed", "ready", "reserved", "dead")] == [0, 0, 0, 0], told
    assert web.get("/v1/jobs", topic="t").json["jobs"] == []
    assert web.reserve("t") == []
    is_error(web.get(f"/v1/jobs/{gone[1]}"), 404, "not_found")
    is_error(web.get("/v1/topics/t/keys/k1"), 404, "not_found")
    is_error(web.post(f"/v1/jobs/{held['id']}/ack", lease=held["lease"]), 404, "not_found")
    fresh = web.push("t", b"new", key="k1")
    assert fresh["id"] != gone[1] and fresh.get("created", True)
    assert [job["body"] for job in web.reserve("t", wait="60s")] == ["new"]
    name = database_of(flags)
    until(lambda: both.maria.ask("SELECT COUNT(*) FROM job", name).split() == ["2"])  # the rest went meanwhile
    until(lambda: both.maria.ask("SELECT COUNT(*) FROM cnt c JOIN topic t USING (topic_id) WHERE c.gen < t.gen",
                                 name).split() == ["0"])
    assert both.maria.ask("SELECT jkey FROM job_key", name).split() == ["k1"]
    assert history(web, gone[1])[-1] == ("gone", "cancelled")
    assert web.get(f"/v1/jobs/{other}").json["state"] == "ready"
    assert web.post("/v1/topics/t/purge").json == {"purged": 1}


def test_purge_while_others_push(web, server):
    """What was answered as pushed before a purge is gone, what was pushed behind it is there, and counts are right."""
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        stop = []

        def pusher():
            client, made = Web(server.web), []
            while not stop:
                asked = time.monotonic()
                job = client.push("t", b"x", delay="1h")["id"]
                made.append((asked, time.monotonic(), job))
            client.close()
            return made
        pushers = [pool.submit(pusher) for _ in range(3)]
        spans = []
        for _ in range(4):
            time.sleep(0.2)
            asked = time.monotonic()
            assert web.post("/v1/topics/t/purge").status == 200
            spans.append((asked, time.monotonic()))
        stop.append(True)
        made = [one for pusher in pushers for one in pusher.result()]
    lives = {job["id"] for job in pages(web, topic="t")}
    for asked, answered, job in made:
        if answered < spans[-1][0]:
            assert job not in lives
        if asked > spans[-1][1]:
            assert job in lives
    assert web.get("/v1/topics/t").json["delayed"] == len(lives)


def pages(web, **args):
    cursor = {}
    while True:
        answer = web.get("/v1/jobs", limit="1000", **args, **cursor).json
        yield from answer["jobs"]
        if answer["cursor"] is None:
            return
        cursor = {"cursor": answer["cursor"]}


# ---- forecast ----


def test_forecast(web):
    for i in range(10):
        web.push("t", b"x", delay=f"{100 + 60 * i}s")
    web.push("u", b"x", delay="100s")
    web.push("t", b"x")
    now_ms = int(time.time() * 1000)
    args = {"from": str(now_ms + 60_000), "to": str(now_ms + 600_000), "step": "1m"}
    told = web.get("/v1/forecast", topic="t", **args).json
    assert sum(step["count"] for step in told["steps"]) == 9 and "approximate" not in told, told
    assert sum(step["count"] for step in web.get("/v1/forecast", **args).json["steps"]) == 10
    assert web.post("/v1/topics/t/purge").json == {"purged": 11}
    assert sum(step["count"] for step in web.get("/v1/forecast", **args).json["steps"]) == 1


def test_forecast_of_very_many_is_a_guess(web, both, flags):
    """Rows that nobody pushed: 260,000 are as many as a forecast does not count."""
    job = web.push("t", b"x", delay="1h")
    columns = "slot, topic_id, gen, state, prio, ver, created, changed, body"
    both.maria.ask(f"INSERT INTO job (id, next_at, due, {columns}) SELECT j.id + 1024 * s.seq, j.next_at + 100000 * s.seq, "
                   f"j.due + 100000 * s.seq, {', '.join('j.' + c for c in columns.split(', '))} FROM job j JOIN seq_1_to_260000 s",
                   database_of(flags))
    args = {"from": str(job["due_ms"] - 60_000), "to": str(job["due_ms"] + 30_000_000), "step": "10m"}
    told = web.get("/v1/forecast", topic="t", **args).json
    assert told["approximate"] is True
    assert 230_000 < sum(step["count"] for step in told["steps"]) < 400_000, told
    assert told["steps"][1]["count"] == 6000  # the first 200,000 are counted
