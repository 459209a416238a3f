"""`--engine redis` with sql.url: rows in a database are the truth, Redis is an index of the near future.

What holds for all engines is tested by the very same tests as on Redis alone (test_on_redis.py); what is different, and
what does not work yet, says doc/engines.md. Below: a Redis that is emptied loses nothing, nor does a database that is
killed; what a database may have wrong is said, and ends by itself.
"""
import concurrent.futures
import json
import shutil
import time

import pytest

import dialogue
from client import Client
from dialogue import is_for
from harness import PATIENCE_S, tarry
from on_redis import plays, served
from on_sql import Both, OnSql
from redis_cluster import until
from test_http import (  # noqa: F401 (run here)
    is_error,
    test_a_job_is_one_job_on_both_ports,
    test_bodies_come_back_exactly,
    test_cancel,
    test_edit,
    test_fire_and_kick,
    test_key_conflicts,
    test_lease_runs_out,
    test_long_poll,
    test_long_poll_of_a_client_that_left_gets_nothing,
    test_pause_is_told,
    test_pause_of_a_tube_is_told_and_lifted,
    test_push_and_look_up,
    test_push_many,
    test_push_with_all_fields,
    test_quota,
    test_release_touch_and_lost_leases,
    test_reserve_and_ack,
    test_topics,
    test_what_a_job_has_of_its_topic_is_shown,
    test_what_the_policy_gives_is_fixed_by_the_push,
)
from web import Web, ready_web, web_port, web_server


@pytest.fixture(scope="module")
def own():
    """Those that are stopped and killed."""
    with Both() as made:
        yield made


@pytest.fixture
def flags(both):
    return both.tarry()


# ---- the beanstalk port ----


# What is about jobs; how lines are read has nothing to do with the engine.
NAMES = ("bury", "delay", "delete", "deadline-soon", "faults", "kick", "kick-job", "lists", "order", "pause", "peek",
         "pipelining", "release", "reserve", "reserve-job", "stats", "touch", "ttr", "waiting", "waiting-order",
         "watch-ignore")
FILES = [path for path in sorted(dialogue.FOLDER.glob("beanstalk-*.txt"))
         if path.stem.removeprefix("beanstalk-") in NAMES and is_for(path.read_text(), "tarry")]


@pytest.fixture(scope="module")
def played(both):
    with plays(OnSql, both, FILES) as made:
        yield made


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem.removeprefix("beanstalk-"))
def test_dialogue(path, played):
    wrong = played(path)
    assert not wrong, wrong


# ---- two nodes ----


def test_two_nodes_are_one_queue(tmp_path, both):
    flags = both.tarry()
    with web_server(tmp_path / "a", *flags) as one, web_server(tmp_path / "b", *flags) as two:
        a, b = ready_web(one), ready_web(two)
        job = a.push("t", b"x", key="k")
        assert b.get(f"/v1/jobs/{job['id']}").json["body"] == "x"
        assert b.get("/v1/topics/t/keys/k").json["id"] == job["id"]
        taken = b.reserve("t", wait="60s")
        assert [got["id"] for got in taken] == [job["id"]]
        assert a.reserve("t") == []
        acked = a.post(f"/v1/jobs/{job['id']}/ack", lease=taken[0]["lease"])
        assert acked.status in (200, 204), acked
        is_error(b.get(f"/v1/jobs/{job['id']}"), 404, "not_found")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            waits = pool.submit(b.reserve, "t", wait="40s")
            until(lambda: a.get("/v1/topics/t").json["waiting"] >= 0)
            began = time.monotonic()
            a.push("t", b"y", delay="300ms")
            assert waits.result()[0]["body"] == "y"
            assert time.monotonic() - began >= 0.3
        a.close()
        b.close()


# ---- what is lost, and what is not ----


def take_all(web, topic, want):
    """Reserves and acks until so many bodies came; gives them. What is away meanwhile is asked again."""
    got = {}
    end = time.monotonic() + PATIENCE_S
    while len(got) < want:
        assert time.monotonic() < end, sorted(got)
        answer = web.post(f"/v1/topics/{topic}/reserve", wait="2s", count="100")
        assert answer.status in (200, 204, 503), answer
        for job in answer.json.get("jobs", []) if answer.status == 200 else []:
            done = web.post(f"/v1/jobs/{job['id']}/ack", lease=job["lease"])
            assert done.status in (200, 204, 409, 503), done
            if done.status != 409:  # one whose lease was over comes again
                got[job["id"]] = job["body"]
    return got


def test_a_redis_that_is_emptied_loses_nothing(tmp_path, both):
    flags = both.tarry()
    with web_server(tmp_path / "a", *flags) as one:
        web = ready_web(one)
        assert web.ask("PUT", "/v1/topics/t", json.dumps({"ttr": "2s"})).status in (200, 201)
        ready = {web.push("t", f"r{i}".encode())["id"]: f"r{i}" for i in range(20)}
        later = {web.push("t", f"d{i}".encode(), delay="1500ms")["id"]: f"d{i}" for i in range(20)}
        far = web.push("t", b"far", delay="1h", key="k")
        held = web.reserve("t", wait="60s")[0]  # and not acked: it comes again
        both.redis.empty()
        assert take_all(web, "t", 40) == ready | later
        assert held["id"] in ready
        assert web.get("/v1/topics/t/keys/k").json["id"] == far["id"]
        told = web.get("/v1/topics/t").json
        assert told["delayed"] == 1 and told["policy"]["ttr_ms"] == 2000, told
        assert one.stop() == 0, one.said


def test_a_redis_that_is_away_takes_no_answer_away(tmp_path, own):
    with web_server(tmp_path / "a", *own.tarry()) as one:
        web = ready_web(one)
        first = web.push("t", b"a")
        own.redis.stop()
        ready = until(lambda: (lambda a: a.json["reasons"] and a)(web.get("/readyz")))
        assert ready.status == 200 and ready.json["ready"] and ready.json["status"] == "ready", ready
        assert [r["code"] for r in ready.json["reasons"]] == ["redis_away"] and "error" not in ready.json
        page = web.get("/metrics").body.decode()
        assert "\ntarry_ready 1\n" in page and 'tarry_unready{reason="redis_away"} 1' in page
        pushed = web.push("t", b"b")
        assert web.get(f"/v1/jobs/{first['id']}").json["body"] == "a"
        gone = web.push("t", b"c")
        assert web.ask("DELETE", f"/v1/jobs/{gone['id']}").status == 200
        own.redis.start()
        assert take_all(web, "t", 2) == {first["id"]: "a", pushed["id"]: "b"}
        assert one.stop() == 0, one.said


def test_a_database_that_is_killed_loses_nothing(tmp_path, own):
    with web_server(tmp_path / "a", *own.tarry()) as one:
        web = ready_web(one)
        kept = {}
        for i in range(30):
            answer = web.post("/v1/topics/t/jobs", f"b{i}".encode())
            assert answer.status == 201, answer
            kept[answer.json["id"]] = f"b{i}"
            if i == 15:
                own.maria.kill()
                began = time.monotonic()
                refused = web.post("/v1/topics/t/jobs", b"no")
                assert refused.status == 503 and time.monotonic() - began < 30, refused
                assert web.get("/readyz").json["reasons"][0]["code"] == "sql_away"
                refused = web.post("/v1/topics/t/reserve")
                assert refused.status == 503, refused
                for topic in ("t", "never-used"):
                    for _ in range(3):
                        began = time.monotonic()
                        refused = web.post(f"/v1/topics/{topic}/reserve", wait="60s")
                        assert refused.status == 503 and time.monotonic() - began < 30, refused
                with Client(served(one)) as client:
                    assert client.ask("reserve-with-timeout 1").word == "INTERNAL_ERROR"
                own.maria.start()
                until(lambda: web.get("/readyz").status == 200)
        got = take_all(web, "t", 30)
        got = {job: body for job, body in got.items() if body != "no"}  # it may have been done
        assert got == kept
        assert one.stop() == 0, one.said


def test_a_failover_that_loses_commits(tmp_path, own):
    """The database is there again as it was a while ago, as a server with another number."""
    past = tmp_path / "past"
    data = own.maria.folder / "data"
    with web_server(tmp_path / "a", *own.tarry()) as one:
        web = ready_web(one)
        assert web.ask("PUT", "/v1/topics/t", json.dumps({"ttr": "2s"})).status in (200, 201)
        kept = {web.push("t", f"k{i}".encode())["id"]: f"k{i}" for i in range(10)}
        moved = web.push("t", b"moved", delay="1h")
        own.maria.kill()
        shutil.copytree(data, past)
        own.maria.start()
        until(lambda: web.get("/readyz").status == 200)
        acked = web.reserve("t", wait="60s", ttr="1h")[0]
        lost = [web.push("t", b"lost")["id"] for _ in range(300)]
        lost += [web.push("new", b"lost")["id"] for _ in range(3)]
        assert web.post(f"/v1/jobs/{acked['id']}/ack", lease=acked["lease"]).status in (200, 204)
        assert web.ask("PATCH", f"/v1/jobs/{moved['id']}", json.dumps({"delay": "2h"})).status == 200
        own.maria.kill()
        shutil.rmtree(data)
        shutil.copytree(past, data)
        own.maria.start("--server-id=2")
        until(lambda: web.get("/readyz").status == 200)
        later = {}
        until(lambda: web.post("/v1/topics/other/jobs", b"warm").status == 201)
        for i in range(20):
            job = web.push("t", f"l{i}".encode())
            later[job["id"]] = f"l{i}"
        assert not set(later) & {*lost, *kept}, "no id twice"
        got = take_all(web, "t", 30)
        assert {body for body in got.values()} == {*kept.values(), *later.values()}, "and the acked one is back"
        until(lambda: web.get("/v1/topics/t").json["ready"] == 0)
        answer = web.post("/v1/topics/new/reserve")
        assert answer.status == 204, "what is lost is not in the index"
        assert web.get(f"/v1/jobs/{moved['id']}").json["state"] == "delayed"
        assert one.stop() == 0, one.said
        assert "is another one" in one.said
    own.maria.kill()
    own.maria.start()


# ---- a database that is not right ----


def refused(*flags):
    """A start that ends with exit code 2: what it said."""
    done = tarry("serve", "--beanstalk", "127.0.0.1:0", "--http", "127.0.0.1:0", *flags)
    assert done.returncode == 2, done
    return done.stderr


def test_what_is_wrong_with_a_database_is_said(both):
    redis = both.redis.tarry()
    name = both.maria.database()
    flags = ["--set", f"sql.url=mariadb://127.0.0.1:{both.maria.port}/{name}", "--set", f"sql.user={name}"]
    said = refused(*redis, *flags, "--set", "sql.password=wrong-one")
    assert "sql.password" in said and "wrong-one" not in said
    said = refused(*redis, *flags, "--set", "sql.password=word")
    assert "tarry sql migrate" in said
    good = both.database()
    name = good[3].partition("=")[2]
    both.maria.ask("UPDATE meta SET v = '99' WHERE k = 'schema'", name)
    assert "99" in refused(*redis, *good)


def test_another_layout_is_refused(tmp_path, both):
    flags = both.tarry()
    with web_server(tmp_path / "a", *flags) as one:
        ready_web(one)
        assert one.stop() == 0
    both.redis.empty()  # then only the database knows
    said = refused(*flags, "--set", "cluster.slots=64")
    assert "64" in said and "256" in said
    said = refused(*both.redis.tarry("other:"), *flags[len(both.redis.tarry()):])
    assert "other:" in said


def test_jobs_are_in_one_place(tmp_path, both):
    """A node that looks for them elsewhere would lose some: it does not start."""
    redis, database = both.redis.tarry(), both.database()
    with web_server(tmp_path / "a", *redis, *database) as one:
        ready_web(one)
        said = refused(*redis)
        assert "in a database" in said and "no sql.url" in said, said
        both.redis.client()("HDEL", redis[-1].partition("=")[2] + "{meta}:layout", "truth")  # as an older release leaves it
        with web_server(tmp_path / "b", *redis, *database) as two:  # with the same, as ever
            ready_web(two)
        assert "in a database" in refused(*redis)
        assert one.stop() == 0
    alone = both.redis.tarry()
    with web_server(tmp_path / "c", *alone) as one:
        ready_web(one)
        said = refused(*alone, *both.database())
        assert "in Redis alone" in said and "has sql.url" in said, said


def test_who_waits_at_a_node_that_looks_elsewhere_hears_so(tmp_path, both):
    """It was the first to mark a store that an older release has made; then comes one with the database."""
    redis, database = both.redis.tarry(), both.database()
    with web_server(tmp_path / "a", *redis, *database) as one:
        ready_web(one)
        assert one.stop() == 0
    both.redis.client()("HDEL", redis[-1].partition("=")[2] + "{meta}:layout", "truth")
    with web_server(tmp_path / "b", *redis) as wrong, concurrent.futures.ThreadPoolExecutor(1) as pool:
        web = ready_web(wrong)
        waits = pool.submit(Web(web.port).post, "/v1/topics/t/reserve", wait="100s")
        until(lambda: web.get("/v1/stats").json["redis"]["waiting"] == 1)
        with web_server(tmp_path / "c", *redis, *database) as two:
            right = ready_web(two)
            until(lambda: web.get("/readyz").status == 503)
            assert waits.result().status == 503
            right.push("t", b"x")
            assert [job["body"] for job in right.reserve("t", wait="60s")] == ["x"]
            assert two.stop() == 0


def test_a_missing_right_is_named(both):
    name = both.maria.database("SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, INDEX")
    flags = ["--set", f"sql.url=mariadb://127.0.0.1:{both.maria.port}/{name}", "--set", f"sql.user={name}",
             "--set", "sql.password=word"]
    assert tarry("sql", "migrate", *flags).returncode == 0
    both.maria.ask(f"REVOKE DELETE ON {name}.* FROM {name}@'127.0.0.1'")
    said = refused(*both.redis.tarry(), *flags)
    assert "DELETE" in said
    check = tarry("sql", "check", *flags)
    assert check.stderr == said


def test_starts_without_a_database(tmp_path, own):
    flags = own.tarry()
    own.maria.kill()
    with web_server(tmp_path / "a", *flags) as one:
        web = Web(web_port(one))
        reasons = web.get("/readyz").json["reasons"]
        assert reasons[0]["code"] == "sql_away", reasons
        assert str(own.maria.port) in reasons[0]["message"], reasons
        assert web.post("/v1/topics/t/jobs", b"x").status == 503
        own.maria.start()
        until(lambda: web.get("/readyz").status == 200)
        assert web.push("t", b"x")["state"] == "ready"
        assert one.stop() == 0, one.said


def test_beanstalk_connections(tmp_path, both):
    with web_server(tmp_path / "a", *both.tarry()) as one:
        port = served(one)
        with Client(port) as first:
            job = first.put(b"x", ttr=3600)
            assert first.reserve() == (job, b"x")
        with Client(port) as second:
            assert second.reserve(wait_s=60) == (job, b"x")
