"""Fixtures that many files have in common. One that means something else by a name has its own of that name.

    redis, both   a redis-server; that and a mariadbd: one for all tests of a file
    flags         of the tarry of one test: the file says which, as `redis.tarry()` or `both.tarry()`
    server, web   a tarry with these flags that serves, and must end well; a client of its HTTP port
"""
import pytest

from on_redis import Redis
from on_sql import Both
from web import Web, ready_web, web_server


@pytest.fixture(scope="module")
def redis():
    with Redis() as made:
        yield made


@pytest.fixture(scope="module")
def both():
    with Both() as made:
        yield made


@pytest.fixture
def server(tmp_path, flags):
    with web_server(tmp_path / "unused", *flags) as made:
        client = ready_web(made)
        client.close()
        made.web = client.port
        yield made
        assert made.stop() == 0, made.said
        assert "runtime error" not in made.said, made.said
    assert not (tmp_path / "unused").exists()


@pytest.fixture
def web(server):
    client = Web(server.web)
    yield client
    client.close()
