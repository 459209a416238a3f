"""Outlets with `--engine redis` and sql.url: as on Redis alone, by the same tests."""
import pytest

from test_outlets import (  # noqa: F401 (run here)
    PRIVATE,
    Receiver,
    deliver,
    gone,
    test_a_change_of_the_policy_is_followed,
    test_a_deleted_topic_delivers_no_more,
    test_a_short_ttr_does_not_end_a_send,
    test_concurrency_is_a_limit,
    test_stop_gives_back_what_does_not_end,
    topic_of,
    wait_until,
)
from test_outlets_on_redis import (  # noqa: F401 (run here)
    LEASE,
    not_embedded,
    test_deliveries_go_on_when_the_owner_dies,
    test_headers,
    test_one_node_sends_for_all,
)
from web import ready_web, web_server


@pytest.fixture
def flags(both):
    return [*both.tarry(), *LEASE, *PRIVATE]


def test_retries_end_among_the_dead_and_redis_is_emptied(tmp_path, both, flags):
    """A receiver that refuses: the job is tried again, then dead. Which topics deliver is not lost with Redis."""
    answers = []
    with Receiver(lambda post: (answers.append(post), (500 if post["Tarry-Topic"] == "bad" else 200, {}, b""))[1]) \
            as hook, web_server(tmp_path / "a", *flags) as server:
        web = ready_web(server)
        deliver(web, "bad", url=hook.url(), policy={"retries": 2, "backoff": "50ms"})
        deliver(web, "good", url=hook.url())
        job = web.push("bad", b"x")
        wait_until(lambda: topic_of(web, "bad")["dead"] == 1)
        assert [post["Tarry-Attempt"] for post in hook.posts] == ["1", "2", "3"]
        assert {post["Idempotency-Key"] for post in hook.posts} == {job["id"]}
        both.redis.empty()
        later = web.push("good", b"y")
        wait_until(lambda: gone(web, later))
        assert server.stop() == 0, server.said
    with Receiver() as hook, web_server(tmp_path / "b", *flags) as server:  # it knows which topics deliver
        web = ready_web(server)
        assert topic_of(web, "good")["policy"]["deliver"]["type"] == "webhook"
        assert server.stop() == 0, server.said
