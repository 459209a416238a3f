"""`--engine redis`: the same server with its jobs in a Redis.

What holds for both engines is tested by the very same tests: they are taken from the files about the
HTTP and the beanstalk port, and run here on a tarry that has its jobs in Redis. What is different,
and why, says doc/engines.md; what a Redis does to a server (it is away, it is the wrong one, it
comes back) is tested below.
"""
import concurrent.futures
import json
import pathlib
import re
import signal
import socket
import time

import pytest

import dialogue
from client import Client
from dialogue import is_for
from harness import PATIENCE_S, tarry
from on_redis import OnRedis, Redis, plays, served
from redis_cluster import until
from test_http import (  # noqa: F401 (run here)
    is_error,
    test_a_job_is_one_job_on_both_ports,
    test_bodies_come_back_exactly,
    test_cancel,
    test_classic_is_off,
    test_edit,
    test_fire_and_kick,
    test_key_conflicts,
    test_lease_runs_out,
    test_list_and_bulk,
    test_long_poll,
    test_long_poll_of_a_client_that_left_gets_nothing,
    test_no_backup_without_a_root,
    test_no_test_clock,
    test_pause_is_told,
    test_pause_of_a_tube_is_told_and_lifted,
    test_purge_one_state,
    test_push_and_ack_many_thousands,
    test_push_and_look_up,
    test_push_many,
    test_push_with_all_fields,
    test_quota,
    test_release_touch_and_lost_leases,
    test_reserve_and_ack,
    test_topics,
    test_unknown_paths,
    test_what_a_job_has_of_its_topic_is_shown,
    test_what_the_policy_gives_is_fixed_by_the_push,
)
from test_http_wire import (  # noqa: F401 (run here)
    test_bad_requests_are_told_and_closed,
    test_byte_by_byte,
    test_chunked_and_expect,
    test_foreign_pages,
    test_keep_alive,
    test_large_body_that_is_refused_is_answered,
    test_percent_encoding,
    test_pipelining,
    test_smuggled_requests_are_not_executed,
    test_wrong_paths_and_methods,
)
from test_metrics import counts, page_of
from test_truth import (  # noqa: F401
    test_a_body_all_of_escapes,
    test_a_policy_that_says_nothing_makes_a_topic,
    test_edit_with_arguments_in_the_query,
    test_pipelined_requests_before_the_end_of_input,
    test_resume_of_a_topic_with_nothing_but_its_pause,
)
from web import Web, web_port, web_server

DOC = pathlib.Path(__file__).resolve().parents[2] / "doc"


@pytest.fixture
def flags(redis):
    return redis.tarry()


# ---- the beanstalk port ----


FILES = [path for path in sorted(dialogue.FOLDER.glob("beanstalk-*.txt"))
         if is_for(path.read_text(), "tarry")]


@pytest.fixture(scope="module")
def played(redis):
    with plays(OnRedis, redis, FILES) as made:
        yield made


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem.removeprefix("beanstalk-"))
def test_dialogue(path, played):
    wrong = played(path)
    assert not wrong, wrong


# ---- two nodes ----


def test_two_nodes_are_one_queue(tmp_path, redis):
    """What one node took the other has: jobs, leases, keys, policies; and a push wakes both."""
    flags = redis.tarry()
    with web_server(tmp_path / "a", *flags) as one, web_server(tmp_path / "b", *flags) as two:
        a, b = Web(web_port(one)), Web(web_port(two))
        job = a.push("t", b"x", key="k")
        assert b.get(f"/v1/jobs/{job['id']}").json["body"] == "x"
        assert b.get("/v1/topics/t/keys/k").json["id"] == job["id"]
        taken = b.reserve("t")
        assert [got["id"] for got in taken] == [job["id"]]
        assert a.reserve("t") == []
        acked = a.post(f"/v1/jobs/{job['id']}/ack", lease=taken[0]["lease"])
        assert acked.status in (200, 204), acked
        is_error(b.get(f"/v1/jobs/{job['id']}"), 404, "not_found")

        a.close()
        b.close()


def of_redis(web):
    return web.get("/v1/stats").json["redis"]


def waits_for(web, said, what):
    end = time.monotonic() + PATIENCE_S
    while not what(of_redis(web)):
        assert time.monotonic() < end, said
        time.sleep(0.02)


def test_a_push_wakes_who_waits_on_another_node(tmp_path, redis):
    """It is the wake-up that does it: nobody polls meanwhile, and the node says that it heard one."""
    flags = redis.tarry()
    with web_server(tmp_path / "a", *flags) as one, web_server(tmp_path / "b", *flags) as two:
        a, b, look = Web(web_port(one)), Web(web_port(two)), Web(web_port(two))
        waits_for(look, "deaf", lambda stat: not stat["deaf"])
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            waits = pool.submit(b.reserve, "t", wait="40s")
            waits_for(look, "nobody waits", lambda stat: stat["waiting"] == 1 and stat["takes_empty"] > 0)
            before = of_redis(look)
            time.sleep(1.2)  # a deaf one asks each second
            assert of_redis(look)["takes"] == before["takes"]
            a.push("t", b"y")
            assert waits.result()[0]["body"] == "y"  # the guard looks after 45 s
        assert of_redis(look)["wakes_heard"] > before["wakes_heard"]
        for web in (a, b, look):
            web.close()


def test_a_stop_gives_back_what_connections_had(tmp_path, redis):
    flags = redis.tarry()
    with web_server(tmp_path / "b", *flags) as two:
        web = Web(web_port(two))
        with web_server(tmp_path / "a", *flags) as one, Client(served(one)) as client:
            job = client.put(b"x", ttr=3600)
            assert client.reserve() == (job, b"x")
            assert web.reserve("default") == []
            assert one.stop() == 0
        # Else the end of its membership would have to be waited for, and the other's look at it.
        assert [got["body"] for got in web.reserve("default", wait="5s")] == ["x"]
        web.close()


def test_a_waiter_is_told_of_a_job_after_one_that_is_due_later(tmp_path, redis):
    with web_server(tmp_path / "a", *redis.tarry()) as one:
        port = served(one)
        with Client(port) as waits, Client(port) as other:
            waits.send("reserve-with-timeout 50\r\n")
            time.sleep(0.3)
            other.put(b"later", delay=100)
            time.sleep(0.1)
            began = time.monotonic()
            other.put(b"now")
            assert waits.reply().body == b"now"
            assert time.monotonic() - began < 30  # the guard looks after 45 s


def test_jobs_of_a_connection_come_back_when_it_ends(tmp_path, redis):
    with web_server(tmp_path / "a", *redis.tarry()) as one:
        port = served(one)
        with Client(port) as first:
            job = first.put(b"x", ttr=3600)
            assert first.reserve() == (job, b"x")
        with Client(port) as second:
            assert second.reserve(wait_s=60) == (job, b"x")


def test_puts_and_deletes_that_are_sent_together(tmp_path, redis):
    """They go to Redis before the ones before are answered, and are answered in order."""
    with web_server(tmp_path / "a", *redis.tarry()) as one, Client(served(one)) as client:
        bodies = [b"%d" % n * (n % 5) for n in range(100)] + [b"x" * 10000, b"last"]
        delays = [0 if n % 7 else 1000 for n in range(len(bodies))]
        puts = b"".join(client.put_bytes(body, delay=delay) for body, delay in zip(bodies, delays))
        # And behind them what does not go ahead: errors, other commands.
        client.send(puts + b"put 0 0 1 1\r\nnot one\r\nput 0 0 1 x\r\nuse other\r\n" +
                    client.put_bytes(b"there") + b"list-tube-used\r\n")
        said = [client.reply() for _ in range(len(bodies) + 6)]
        assert [reply.word for reply in said] == ["INSERTED"] * len(bodies) + [
            "EXPECTED_CRLF", "UNKNOWN_COMMAND", "BAD_FORMAT", "USING", "INSERTED", "USING"]
        ids = [int(reply.args[0]) for reply in said[:len(bodies)]]
        assert ids == sorted(set(ids))
        for job, body, delay in zip(ids, bodies, delays):
            if delay == 0:
                assert client.reserve() == (job, body)
        client.send("".join(f"delete {job}\r\ndelete {job}\r\n" for job in ids))
        assert [client.reply().word for _ in range(2 * len(ids))] == ["DELETED", "NOT_FOUND"] * len(ids)


def test_a_client_that_leaves_in_the_middle_of_many_commands(tmp_path, redis):
    """What it had not deleted comes back, and nothing comes twice."""
    with web_server(tmp_path / "a", *redis.tarry()) as one:
        port = served(one)
        kept = []
        for _ in range(5):
            with Client(port) as first:
                for _ in range(20):
                    first.put(b"old", ttr=3600)
                jobs = []
                while len(jobs) < 20:
                    job, body = first.reserve()
                    jobs += [job] if body == b"old" and job not in kept else []
                kept += jobs[10:]
                first.send("".join(f"delete {job}\r\n" for job in jobs[:10]) + 40 * "put 9999 0 60 1\r\nx\r\n")
        with Client(port) as second:
            came = []
            # What connections had that are gone comes when it is found out that they are.
            while (job := second.reserve(wait_s=1 if set(kept) <= set(came) else 60)) is not None:
                came.append(job[0])
                assert second.ask(f"delete {job[0]}").word == "DELETED"
            assert set(kept) <= set(came) and len(set(came)) == len(came)


def test_reserves_that_are_sent_together(tmp_path, redis):
    """Each job is told once, to who is still there; what nobody heard of comes back."""
    with web_server(tmp_path / "a", *redis.tarry()) as one:
        port = served(one)
        with Client(port) as producer, Client(port) as first, Client(port) as second:
            ids = [producer.put(b"%d" % n) for n in range(10)]
            first.send(4 * "reserve\r\n")
            assert [int(first.reply().args[0]) for _ in range(4)] == ids[:4]
            second.send(8 * "reserve\r\n" + "stats-job 1\r\n")
            assert [int(second.reply().args[0]) for _ in range(6)] == ids[4:]
            first.send(3 * "reserve\r\n")
            time.sleep(0.1)
            more = [producer.put(b"%d" % n) for n in range(2)]  # second came first
            assert [int(second.reply().args[0]) for _ in range(2)] == more
            assert second.reply().word == "NOT_FOUND"
            with Client(port) as third:
                third.send(20 * "reserve\r\n")
                time.sleep(0.1)
            first.socket.shutdown(socket.SHUT_WR)
            assert [first.reply().word for _ in range(3)] == ["TIMED_OUT"] * 3
            with pytest.raises(EOFError):
                first.reply()
            # All that the first one had is there again, and waits for nobody who has left.
            again = [second.reserve(wait_s=60)[0] for _ in range(4)]
            assert sorted(again) == ids[:4]
            last = producer.put(b"last")
            assert second.reserve(wait_s=60) == (last, b"last")


# ---- a Redis that is not there ----


def test_starts_without_redis_and_says_so(tmp_path):
    with Redis() as redis:
        redis.stop()
        with web_server(tmp_path / "a", *redis.tarry()) as one:
            web = Web(web_port(one))
            assert web.get("/healthz").status == 200
            ready = web.get("/readyz")
            assert ready.status == 503
            assert ready.json["reasons"][0]["code"] == "redis_away", ready
            assert str(redis.port) in ready.json["reasons"][0]["message"]
            began = time.monotonic()
            refused = web.post("/v1/topics/t/jobs", b"x")
            assert time.monotonic() - began < PATIENCE_S / 2
            assert refused.status == 503 and refused.code == "redis_away", refused
            assert int(refused.headers["Retry-After"]) >= 1
            with Client(served(one)) as client:
                client.send(client.put_bytes(b"x"))
                assert client.reply().word == "DRAINING"
            redis.start()
            until(lambda: web.get("/readyz").status == 200)
            assert web.push("t", b"x")["state"] == "ready"
            assert one.stop() == 0, one.said


def test_redis_goes_and_comes_back(tmp_path):
    with Redis("--appendonly", "yes", "--appendfsync", "always") as redis:
        with web_server(tmp_path / "a", *redis.tarry()) as one:
            web = Web(web_port(one))
            job = web.push("t", b"x")
            redis.stop()
            until(lambda: web.get("/readyz").status == 503)
            began = time.monotonic()
            refused = web.post("/v1/topics/t/jobs", b"y")
            assert time.monotonic() - began < PATIENCE_S / 2
            assert refused.status == 503 and "Retry-After" in refused.headers, refused
            redis.start()
            until(lambda: web.get("/readyz").status == 200)
            until(lambda: web.post("/v1/topics/t/jobs", b"z").status == 201)  # or again 503
            got = {}
            while job["id"] not in got:  # nothing was lost, and what was refused may be asked again
                answer = web.post("/v1/topics/t/reserve", wait="60s")
                assert answer.status in (200, 503), answer
                got.update({one["id"]: one for one in answer.json.get("jobs", [])})
            assert one.stop() == 0, one.said


def test_ignore_without_redis(tmp_path):
    """It is done, or it is said that it was not; then the tube is watched still. Found by make chaos."""
    with Redis("--appendonly", "yes") as redis:
        with web_server(tmp_path / "a", *redis.tarry()) as one, Client(served(one)) as client:
            for tube in ("seen", "other", "third"):
                assert client.ask(f"watch {tube}").word == "WATCHING"
            time.sleep(1.5)  # what the node knows of the list of topics is older than a second
            redis.stop()
            said = client.say("ignore seen")
            redis.start()
            web = Web(web_port(one))
            until(lambda: web.post("/v1/topics/seen/jobs", b"x").status == 201)
            got = client.reserve(5 if said == "WATCHING 3" else 60)
            assert (said, got) == ("WATCHING 3", None) or (said == "INTERNAL_ERROR" and got[1] == b"x"), said


# ---- a Redis that is not right ----


def refused(*flags):
    """A start that ends with exit code 2: what it said."""
    done = tarry("serve", "--beanstalk", "127.0.0.1:0", "--http", "127.0.0.1:0", *flags)
    assert done.returncode == 2, done
    return done.stderr


def test_a_redis_that_evicts_is_refused(redis):
    with Redis("--maxmemory-policy", "allkeys-lru") as bad:
        said = refused(*bad.tarry())
        assert "noeviction" in said and "maxmemory-policy" in said


def test_another_layout_is_refused(tmp_path, redis):
    flags = redis.tarry()
    with web_server(tmp_path / "a", *flags) as one:
        web_port(one)
        assert one.stop() == 0
    said = refused(*flags, "--set", "cluster.slots=64")
    assert "64" in said and "256" in said


def test_a_wrong_password_is_refused(tmp_path):
    with Redis("--requirepass", "secret") as guarded:
        said = refused(*guarded.tarry())
        assert "redis.password" in said and ".." not in said, said
        said = refused(*guarded.tarry(), "--set", "redis.password=wrong-one")
        assert "redis.password" in said and "wrong-one" not in said
        flags = [*guarded.tarry(), "--set", "redis.password=secret"]
        with web_server(tmp_path / "a", *flags) as one:
            web = Web(web_port(one))
            web.push("t", b"x")
            told = web.get("/v1/config")
            assert told.json["settings"]["redis.password"]["value"] is None
            assert b"secret" not in told.body
            assert one.stop() == 0 and "secret" not in one.said


def test_a_missing_right_is_named(tmp_path):
    """At the start, and later; Redis itself can be reached all the while."""
    with Redis() as guarded:
        acl = guarded.client()
        flags = [*guarded.tarry("t:"), "--set", "redis.password=pw", "--set"]
        for n, (rights, word) in enumerate(((("~other:*", "+@all"), "keys"), (("~t:*", "+@all", "-info"), "'info'"),
                                            (("~t:*", "+@all", "-@scripting"), "'evalsha'"),
                                            (("~t:*", "+@all", "-zadd"), "can't run this command or subcommand. Give"))):
            acl("ACL", "SETUSER", f"u{n}", "on", ">pw", *rights)
            said = refused(*flags, f"redis.user=u{n}")
            assert word in said and "~t:* +@all -@dangerous" in said and "cannot be reached" not in said, said
        acl("ACL", "SETUSER", "fine", "on", ">pw", "~t:*", "+@all", "-@dangerous", "+info")
        with web_server(tmp_path / "a", *flags, "redis.user=fine") as one:
            web = Web(web_port(one))
            until(lambda: web.get("/readyz").status == 200)
            acl("ACL", "SETUSER", "fine", "resetkeys")
            reasons = lambda: [r["code"] for r in web.get("/readyz").json["reasons"]]
            until(lambda: reasons() == ["redis_auth"])
            assert web.post("/v1/topics/t/jobs", b"x").status in (500, 503)
            acl("ACL", "SETUSER", "fine", "~t:*")
            until(lambda: reasons() == [])
            assert one.stop() == 0 and "does not let this user" in one.said
        acl("ACL", "SETUSER", "deaf", "on", ">pw", "~t:*", "+@all", "-blpop")
        with web_server(tmp_path / "b", *flags, "redis.user=deaf") as one:
            web = Web(web_port(one))
            until(lambda: web.get("/readyz").status == 200)
            one.wait_for(r"give it \+blpop")
            assert one.stop() == 0 and one.said.count("+blpop") == 1


def test_an_unreachable_redis_is_named_at_the_start(tmp_path):
    with web_server(tmp_path / "a", "--engine", "redis", "--set", "redis.servers=127.0.0.1:1") as one:
        web_port(one)
        assert one.stop() == 0 and "Redis at 127.0.0.1:1 cannot be reached: Connection refused" in one.said


def test_what_needs_the_embedded_engine():
    where = ["--set", "redis.servers=127.0.0.1:1"]
    assert "redis.servers" in refused("--engine", "redis")
    for flags, word in ([["--sync", "always"], "store.sync"], [["--read-only"], "store.read_only"],
                        [["--test-clock"], "clock.test"], [["--set", "limits.topics=5"], "limits.topics"],
                        [["--set", "store.backup_root=/tmp"], "store.backup_root"],
                        [["--set", "redis.user=x"], "redis.password"]):
        assert word in refused("--engine", "redis", *where, *flags)


def test_what_only_the_embedded_engine_can(web):
    for path, word in (("/v1/backup?dir=x", "use the backup of that"), ("/v1/clock/advance?by=1s", "needs --engine local")):
        said = web.ask("POST", path)
        assert said.status == 501 and word in said.json["error"]["message"], said
    assert "needs --engine local" in web.get("/v1/clock").json["error"]["message"]


def test_settings_that_mean_nothing_are_warned_of(tmp_path, redis):
    with web_server(tmp_path / "a", *redis.tarry(), "--set", "sql.user=x") as one:
        web_port(one)
        assert one.stop() == 0
        assert "--data means nothing with --engine redis" in one.said and "nothing without sql.url" in one.said
    with web_server(tmp_path / "b", "--set", "zookeeper.servers=127.0.0.1:1", "--set", "cluster.slots=64") as one:
        web_port(one)
        assert one.stop() == 0
        for key in ("zookeeper.servers", "cluster.slots"):
            assert f"{key} means nothing without --engine redis" in one.said, one.said


# ---- what it tells ----


def test_doctor(server):
    """It repeats what the server says of its durability, and asks for no folder that would be refused."""
    said = tarry("doctor", "--server", f"127.0.0.1:{web_port(server)}", "--json")
    found = {line["check"]: line for line in json.loads(said.stdout)}
    assert "Found: Redis 7." in found["durability"]["says"] and found["durability"]["verdict"] == "note"
    assert found["backups"]["verdict"] == "ok" and "those of Redis" in found["backups"]["says"]
    assert "disk room" not in found and "disk sync" not in found


def test_it_says_what_it_promises(server, web):
    told = web.get("/v1/config").json
    assert told["settings"]["engine.kind"]["value"] == "redis"
    assert "failover" in told["durability"]
    assert "failover" in server.said
    stats = web.get("/v1/stats").json
    assert stats["redis"]["nodes"] == 1 and stats["redis"]["connections"] >= 1
    shown = set(re.findall(r"^# TYPE (\w+)", web.get("/metrics").body.decode(), re.M))
    told = [re.findall(r"^\| `(\w+)(?:\{[\w,]+\})?` \|", (DOC / name).read_text(), re.M)
            for name in ("engines.md", "monitoring.md")]
    assert {name for name in told[0] if name.startswith("tarry_")} <= shown
    assert shown <= {*told[0], *told[1]}


def test_it_says_what_it_found(tmp_path):
    """Version, appendfsync, replicas, and what they mean, at the start and in /v1/config."""
    for flags, words in (([], ("appendonly no", "is lost", "0 replicas", "no failover")),
                         (["--appendonly", "yes", "--appendfsync", "everysec"], ("appendfsync everysec", "last second")),
                         (["--appendonly", "yes", "--appendfsync", "always"], ("appendfsync always", "takes nothing back"))):
        with Redis(*flags) as found, web_server(tmp_path / "a", *found.tarry()) as one:
            web = Web(web_port(one))
            told = web.get("/v1/config").json["durability"]
            assert told in one.said
            assert re.search(r"Redis 7\.\d+\.\d+, 1 primary", told), told
            for word in words:
                assert word in told, told


def test_replicas_that_are_waited_for(tmp_path):
    with Redis() as primary:
        primary.timeout = "16s"  # an eighth of that is what a replica may take
        wait = [*primary.tarry(), "--set", "redis.wait_replicas=1"]
        said = refused(*wait)
        assert "redis.wait_replicas is 1" in said and "this Redis has 0" in said
        with Redis("--replicaof", f"127.0.0.1 {primary.port}") as replica:
            until(lambda: b"state=online" in primary.client()("INFO", "replication"))
            with web_server(tmp_path / "a", *wait) as one:
                web = Web(web_port(one))
                job = web.push("t", b"x")
                assert replica.client()("DBSIZE") > 0
                assert "when 1 of its replicas has them" in web.get("/v1/config").json["durability"]
                taken = web.reserve("t", ttr="1h")[0]
                replica.stop()
                unsure = web.post("/v1/topics/t/jobs", b"y")
                assert unsure.status == 503 and unsure.code == "unsure", unsure
                assert "wait_replicas" in unsure.json["error"]["message"]
                assert "redis_replicas" in [r["code"] for r in web.get("/readyz").json["reasons"]]
                assert taken["id"] == job["id"]
                replica.start()
                until(lambda: web.post("/v1/topics/t/jobs", b"z").status == 201)
                until(lambda: web.get("/readyz").status == 200)
                assert web.post(f"/v1/jobs/{job['id']}/ack", lease=taken["lease"]).status in (200, 204)


def test_bytes_of_a_topic(web):
    for spread, limit in ((1, 250), (4, 1000)):
        name = f"wide{spread}"
        assert web.ask("PUT", f"/v1/topics/{name}", json.dumps({"spread": spread, "max_bytes": limit})).status in (
            200, 201)
        assert web.get(f"/v1/topics/{name}").json["policy"]["max_bytes"] == limit
        keys = [f"k{n}" for n in range(64)]
        made = [web.post(f"/v1/topics/{name}/jobs", b"x" * 100, key=key).status for key in keys]
        assert made.count(201) == limit // spread // 100 * spread  # each slot has its share
        is_error(web.post(f"/v1/topics/{name}/jobs", b"x" * limit), 429, "quota")
    job = web.get("/v1/topics/wide1/keys/k0").json
    is_error(web.ask("PATCH", f"/v1/jobs/{job['id']}", json.dumps({"body": "y" * 151})), 429, "quota")
    assert web.ask("PATCH", f"/v1/jobs/{job['id']}", json.dumps({"body": "y" * 150})).status == 200
    is_error(web.post("/v1/topics/wide1/jobs", b"x"), 429, "quota")
    taken = web.reserve("wide1")[0]
    assert web.post(f"/v1/jobs/{taken['id']}/ack", lease=taken["lease"]).status in (200, 204)
    assert web.post("/v1/topics/wide1/purge").json["purged"] == 1
    assert web.push("wide1", b"x" * 250)["id"]


def test_figures_by_topic(web):
    """What this node did, by topic; how many jobs there are, whoever made them."""
    web.push("far", b"x", delay="1h")
    web.push("near", b"x", delay="50ms")
    jobs = [web.push("near", b"x")["id"] for _ in range(4)]
    taken = web.reserve("near", count=3, wait="5s")
    time.sleep(0.06)
    taken += web.reserve("near", count=2, wait="5s")
    assert len(taken) == 5
    for job, what in zip(taken, ("ack", "release", "bury")):
        assert web.post(f"/v1/jobs/{job['id']}/{what}", lease=job["lease"]).status in (200, 204)
    assert web.post("/v1/jobs/cancel", topic="near", state="dead").json["done"] == 1
    page = page_of(web)
    assert counts(page, "near") == {"pushed": 5, "fired": 1, "handed": 5, "acked": 1, "retried": 1, "dead": 1,
                                    "cancelled": 1, "expired": 0, "dropped": 0}
    assert counts(page, "far")["pushed"] == 1 and counts(page, "far")["handed"] == 0
    assert page.get("tarry_jobs", topic="far", state="delayed") == 1
    assert page.get("tarry_jobs", topic="near", state="reserved") == 2
    assert page.get("tarry_jobs", topic="_other", state="delayed") == 0
    assert page.get("tarry_job_lateness_seconds_count", topic="near") == 5
    assert page.get("tarry_topic_next_due_timestamp_seconds", topic="far") > time.time() + 3000
    told = web.get("/v1/topics/near").json
    assert told["pushed_per_s"] > 0 and told["handed_per_s"] > 0 and jobs
    assert web.get("/v1/stats").json["pushed_per_s"] >= told["pushed_per_s"]


def test_what_is_refused_says_why(web):
    later = web.push("later", b"x", delay="1h")
    told = web.get(f"/v1/jobs/{later['id']}/history").json["events"]
    assert [event["state"] for event in told] == ["delayed"], told
    assert told[0]["at_ms"] == web.get(f"/v1/jobs/{later['id']}").json["created_ms"]
    gone = web.push("t", b"x", delay="200ms")
    taken = web.reserve("t", wait="60s")[0]
    told = web.get(f"/v1/jobs/{gone['id']}/history").json["events"]
    assert [event["state"] for event in told] == ["delayed", "ready"] and told[1]["at_ms"] == gone["due_ms"]
    assert web.post(f"/v1/jobs/{gone['id']}/bury", lease=taken["lease"]).status == 200
    told = web.get(f"/v1/jobs/{gone['id']}/history").json["events"]
    assert told[-1]["state"] == "dead" and told[-1]["why"] == "buried", told
    assert web.ask("DELETE", f"/v1/jobs/{gone['id']}").status == 200
    is_error(web.get(f"/v1/jobs/{gone['id']}/history"), 501, "unsupported")
    is_error(web.get("/v1/jobs/1/history"), 404, "not_found")
    for spread in (3, 512):
        is_error(web.ask("PUT", "/v1/topics/t", json.dumps({"spread": spread})), 400,
                 field="spread")


def test_limits_below_spread_are_refused(web):
    """Each slot has its share of a limit, and there is no half of a job."""
    for limit in ("in_flight", "max_jobs", "dead_max"):
        is_error(web.ask("PUT", "/v1/topics/t", json.dumps({"spread": 4, limit: 3})), 422)
        assert web.ask("PUT", f"/v1/topics/t-{limit}", json.dumps({"spread": 4, limit: 4})).status == 200
    for limits in ({"rate": 3.9}, {"rate": 1, "burst": 4}, {"rate": 4, "burst": 3}):
        is_error(web.ask("PUT", "/v1/topics/t", json.dumps({"spread": 4, **limits})), 422)
    assert web.ask("PUT", "/v1/topics/t-rate", json.dumps({"spread": 4, "rate": 4, "burst": 4})).status == 200
    is_error(web.ask("PATCH", "/v1/topics/t-rate", json.dumps({"burst": 2})), 422)
    assert web.ask("PUT", "/v1/topics/none", json.dumps({"spread": 4, "dead_max": 0})).status == 200


def test_spread_is_fixed(web):
    """By the first job, also when that is gone; or when it was set."""
    def spread(topic, number, **more):
        return web.ask("PUT", f"/v1/topics/{topic}", json.dumps({"spread": number, **more}))
    web.push("t")
    assert web.post("/v1/topics/t/purge").status == 200
    is_error(spread("t", 4), 409)
    assert spread("t", 1).status == 200
    assert web.get("/v1/topics/t").json["policy"]["spread"] == 1
    assert web.ask("PUT", "/v1/topics/u", json.dumps({"ttr": "5s"})).status == 200
    assert spread("u", 4).status == 200 and spread("u", 4, ttr="6s").status == 200
    is_error(spread("u", 8), 409)
    ids = {web.push("u", b"x")["id"] for _ in range(16)}
    assert len({int(job) % 1024 for job in ids}) == 4
    taken = set()
    while len(taken) < 16:
        taken |= {job["id"] for job in web.reserve("u", count=16, wait="10s")}
    assert taken == ids


def test_a_slot_that_redis_has_lost(tmp_path, redis):
    """It is used on; the loss is counted and said, also by a node that did not know the slot."""
    flags = redis.tarry("lost:")
    client = redis.client()
    for round_ in range(3):
        with web_server(tmp_path / "a", *flags) as node:
            web = Web(web_port(node))
            for lost in range(2):
                job = web.push("t", b"x")
                slot = int(job["id"]) % 1024
                expect = lost + (round_ > 0)
                end = time.monotonic() + PATIENCE_S
                while web.get("/v1/stats").json["redis"]["slots_lost"] != expect:
                    assert time.monotonic() < end
                    time.sleep(0.02)
                ready = web.get("/readyz")
                assert ready.status == (503 if expect else 200)
                assert not expect or ready.json["reasons"][0]["code"] == "redis_lost"
                assert web.reserve("t")[0]["id"] == job["id"]
                keys = client("KEYS", "lost:{%d}*" % slot)
                assert client("DEL", *keys) == len(keys)
            node.wait_for(f"has lost the data of slot {slot}")
            web.close()
    client.close()


def test_drain(server, web):
    server.process.send_signal(signal.SIGUSR1)
    server.wait_for("draining")
    is_error(web.post("/v1/topics/t/jobs", b"x"), 503, "draining")
    assert web.get("/readyz").json["reasons"][0]["code"] == "draining"


def test_the_binary_knows_it():
    said = tarry("serve", "--help").stdout
    assert "redis.servers" in said and "cluster.slots" in said
