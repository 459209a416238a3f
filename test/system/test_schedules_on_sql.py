"""Schedules with `--engine redis` and sql.url: as on Redis alone, by the same tests; they are rows.

Whatever happens to Redis and to nodes, each number is there once: the job of a tick, its number (last_n) and the state
of its schedule are one transaction.
"""
import signal

import pytest

from harness import tarry
from on_sql import database_of
from redis_cluster import until
from test_schedules import dues, put
from test_schedules_on_redis import (  # noqa: F401 (run here)
    LEASE,
    one,
    test_a_node_that_drains_makes_no_jobs,
    test_a_topic_that_takes_none_holds_the_tick,
    test_every_after_and_overlap,
    test_expiry_and_last_attempt_end_an_occurrence,
    test_preview,
    test_run_pause_and_move,
    test_says_what_the_embedded_engine_says,
    test_spread_topics,
)
from web import ready_web, web_server


@pytest.fixture
def flags(both):
    return both.tarry()


@pytest.fixture
def ask(both, flags):
    """Asks the test's own database."""
    return lambda text: both.maria.ask(text, database_of(flags))


def test_each_number_once(tmp_path, both, flags, ask):
    """Two nodes; Redis is emptied, then a node is killed: all ticks, none twice, none left out."""
    flags = [*flags, *LEASE]
    names = [f"s{i}" for i in range(8)]
    with web_server(tmp_path / "a", *flags) as first, web_server(tmp_path / "b", *flags) as second:
        a, b = ready_web(first), ready_web(second)
        share = lambda node: node.get("/v1/stats").json["redis"]["slots_owned"]
        until(lambda: share(a) == share(b) == 128)
        for name in names:
            put(a, name, topic=name, every="250ms", missed="all", overlap="allow")
        until(lambda: all(one(b, name)["fired"] >= 2 for name in names))
        both.redis.empty()
        fired = {name: one(b, name)["fired"] for name in names}
        until(lambda: all(one(b, name)["fired"] >= fired[name] + 2 for name in names))
        until(lambda: share(a) == share(b) == 128)  # each has forgotten the other, too
        first.stop(signal.SIGKILL)
        fired = {name: one(b, name)["fired"] for name in names}
        until(lambda: all(one(b, name)["fired"] >= fired[name] + 3 for name in names))
        for name in names:
            assert b.ask("DELETE", f"/v1/schedules/{name}").status == 200
            jobs = dues(b, name)
            assert all(y - x == 250 for x, y in zip(jobs, jobs[1:])), jobs
        numbers = [line.split() for line in ask("SELECT topic_id, sched_n FROM job ORDER BY 1, 2").splitlines()]
        for topic in {topic for topic, _ in numbers}:
            mine = [int(n) for each, n in numbers if each == topic]
            assert mine == list(range(1, len(mine) + 1))
        assert share(b) == 256
        assert second.stop() == 0, second.said


def test_an_end_is_not_lost_with_redis(web, both, ask):
    """A job ends while Redis is empty: its schedule goes on, since both are rows."""
    put(web, "s", topic="t", after="100ms")
    job = web.reserve("t", wait="60s")[0]
    both.redis.empty()
    assert web.post(f"/v1/jobs/{job['id']}/ack", lease=job["lease"]).status == 200
    until(lambda: one(web, "s").get("job") not in (None, job["id"]))
    assert one(web, "s")["fired"] == 2
    # Whoever takes the row away without saying so: it is noticed when the schedule is next looked at.
    ask("DELETE FROM job")
    ask("UPDATE schedule SET next_at = 1")
    put(web, "other", topic="t", every="1h")
    assert web.post("/v1/schedules/s/pause").status == 200
    assert web.post("/v1/schedules/s/resume").status == 200
    until(lambda: one(web, "s")["fired"] == 3)


def test_a_schedule_of_a_newer_release_is_in_nobodys_way(web, ask):
    put(web, "old", topic="t", every="200ms", overlap="allow")
    put(web, "new", topic="t", every="200ms", overlap="allow")
    until(lambda: one(web, "new")["fired"] >= 1)
    ask("UPDATE schedule SET spec = x'ffffffff0f', ver = ver + 1 WHERE name = 'new'")
    fired = one(web, "old")["fired"]
    until(lambda: one(web, "old")["fired"] >= fired + 4)


def test_tables_of_the_schema_before(tmp_path, both, flags, ask):
    """They are served, but for schedules, which say what to do; then they are migrated, and all is there."""
    ask("ALTER TABLE schedule DROP COLUMN state, DROP COLUMN ended, DROP KEY due, MODIFY spec BLOB NOT NULL")
    ask("ALTER TABLE topic DROP COLUMN delivers")
    ask("UPDATE meta SET v = '1' WHERE k = 'schema'")
    with web_server(tmp_path / "a", *flags) as server:
        web = ready_web(server)
        job = web.push("t", b"x")
        assert [each["id"] for each in web.reserve("t", wait="60s")] == [job["id"]]
        refused = web.ask("PUT", "/v1/schedules/s", '{"topic": "t", "every": "1h"}')
        assert refused.status == 503, refused
        assert web.get("/readyz").status == 200
        server.wait_for("tarry sql migrate")
        sql = flags[-6:]
        assert tarry("sql", "migrate", *sql).returncode == 0
        put(web, "s", topic="u", every="200ms", overlap="allow")
        until(lambda: one(web, "s")["fired"] >= 1)
        assert server.stop() == 0, server.said
