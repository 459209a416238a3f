"""A node with a database that refuses: a connection, or what is to be stored. Others go on."""
import concurrent.futures
import json
import time

import pytest

from harness import PATIENCE_S
from on_sql import Both
from web import Web, ready_web, web_server

MIB = 1 << 20
PACKET = 2 * MIB  # limits.body is 1 MiB


class Node:
    """A running node that has its database to itself."""

    def __init__(self, both, folder):
        self.both = both
        flags = both.tarry()
        self.user = next(flag for flag in flags if flag.startswith("sql.user=")).split("=")[1]
        self.process = web_server(folder, *flags)
        self.web = ready_web(self.process)

    def count(self):
        """Of its connections, for which it may have to connect anew."""
        return int(self.both.maria.ask(f"SELECT COUNT(*) FROM information_schema.processlist WHERE user = '{self.user}'"))

    def cut(self):
        """All of its connections end."""
        for number in self.both.maria.ask("SELECT id FROM information_schema.processlist "
                                          f"WHERE user = '{self.user}'").split():
            self.both.maria.ask(f"KILL {number}", check=False)


def wait_until(true):
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture(scope="module")
def both():
    with Both() as made:
        yield made


@pytest.fixture(scope="module")
def node(both, tmp_path_factory):
    both.maria.ask(f"SET GLOBAL max_allowed_packet = {PACKET}")
    made = Node(both, tmp_path_factory.mktemp("node"))
    with made.process:
        yield made
        assert made.process.stop() == 0, made.process.said


TOPICS = [f"t{n}" for n in range(16)]  # of slots that go by all connections


def test_one_connection_that_cannot_be_made(node):
    """Nobody hears of it but those who find out, by their requests; then all go on by the other three."""
    limit = f"ALTER USER {node.user}@'127.0.0.1' WITH MAX_USER_CONNECTIONS "
    for topic in TOPICS:
        node.web.push(topic, b"x", delay="1h")
    node.both.maria.ask(limit + "3")
    try:
        node.cut()
        wait_until(lambda: {node.web.post(f"/v1/topics/{topic}/jobs", b"y", delay="1h").status for topic in TOPICS} == {201})
        node.process.wait_for("max_user_connections")
        end = time.monotonic() + 2  # it is tried again all the time
        while time.monotonic() < end:
            for topic in TOPICS:
                assert node.web.post(f"/v1/topics/{topic}/jobs", b"z", delay="1h").status == 201
            assert node.web.get("/readyz").status == 200
        assert node.count() == 3
    finally:
        node.both.maria.ask(limit + "0")
    wait_until(lambda: node.count() == 4)


@pytest.mark.parametrize("byte", ["'", "\\", '"'])
def test_a_body_that_grows_when_it_is_quoted(node, byte):
    """As large as limits.body allows, but more than a packet has room for: each of them is two bytes there."""
    body = byte * (MIB - 1) + "."
    made = node.web.push("quotes", body.encode(), delay="1h")
    path = f"/v1/jobs/{made['id']}"
    assert node.web.get(path).json["body"] == body
    body = body[::-1]
    assert node.web.ask("PATCH", path, json.dumps({"body": body, "delay": 0})).status == 200
    job, = node.web.reserve("quotes", wait="60s")
    assert (job["id"], job["body"]) == (made["id"], body)
    assert node.web.post(f"{path}/ack", lease=job["lease"]).status == 200


def test_what_the_database_does_not_take_is_final(node):
    """A server that was told to take less, since: who asks for more hears so each time, and what to do. Those who came
    with him are served, and the node is well."""
    big = b"x" * (MIB * 3 // 4)
    node.both.maria.ask(f"SET GLOBAL max_allowed_packet = {MIB // 2}")
    try:
        node.cut()
        wait_until(lambda: node.web.post("/v1/topics/big/jobs", b"y", delay="1h").status == 201)
        with concurrent.futures.ThreadPoolExecutor(9) as pool:
            for _ in range(3):
                refused = pool.submit(Web(node.web.port).post, "/v1/topics/big/jobs", big, delay="1h")
                others = [pool.submit(Web(node.web.port).post, "/v1/topics/big/jobs", b"z", delay="1h") for _ in range(8)]
                answer = refused.result()
                assert (answer.status, answer.code) == (422, "unprocessable"), answer
                assert "Raise max_allowed_packet there" in answer.body.decode(), answer
                assert {other.result().status for other in others} == {201}
                assert node.web.get("/readyz").status == 200
    finally:
        node.both.maria.ask(f"SET GLOBAL max_allowed_packet = {PACKET}")
    node.cut()
    wait_until(lambda: node.web.post("/v1/topics/big/jobs", big, delay="1h").status == 201)


def test_a_database_that_can_be_reached_says_why(node):
    """Not that it cannot be reached: its words, as /readyz has them."""
    job = node.web.push("words", b"x")["id"]

    def refused(code, word):
        def whole():
            said = node.web.get("/readyz").json["reasons"]
            return [r["message"] for r in said if r["code"] == code]
        wait_until(lambda: node.web.post("/v1/topics/words/jobs", b"y").status == 503)
        wait_until(whole)
        [message] = whole()
        assert word in message
        for said in (node.web.post("/v1/topics/words/jobs", b"y"), node.web.post("/v1/topics/words/reserve", wait="5s"),
                     node.web.post("/v1/topics/words/reserve"), node.web.ask("DELETE", f"/v1/jobs/{job}"),
                     node.web.ask("PUT", "/v1/topics/words", "{}")):
            assert (said.status, said.code) == (503, "away"), said
            assert word in said.json["error"]["message"], said
    for change, back, code, word in (
            ("SET GLOBAL read_only = 1", "SET GLOBAL read_only = 0", "sql_read_only", "read-only"),
            ("RENAME TABLE job TO other", "RENAME TABLE other TO job", "sql_tables", "tarry sql migrate")):
        node.both.maria.ask(change, node.user)
        try:
            refused(code, word)
        finally:
            node.both.maria.ask(back, node.user)
        wait_until(lambda: node.web.get("/readyz").status == 200)
        wait_until(lambda: node.web.post("/v1/topics/words/jobs", b"y").status == 201)
