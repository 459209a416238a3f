"""A database whose disk is full: new jobs are refused (507) with the server's words at /readyz, all else goes on, and it
ends by itself when there is room again. The disk is a small tmpfs (test_full.py)."""
import pytest

from client import Client
from mariadb_server import Server
from on_redis import served
from on_sql import Both
from redis_cluster import until
from test_full import Disk
from web import ready_web, web_server

SIZE_MIB = 60  # of which MariaDB needs 40 before there is anything
BODY = b"x" * 60000


@pytest.fixture
def disk(tmp_path):
    (tmp_path / "disk").mkdir()
    made = Disk(tmp_path / "disk", SIZE_MIB)
    yield made
    made.close()


def fill(web):
    """Pushes until the disk is full: the ids of the jobs that were taken."""
    ids = set()
    while True:
        said = web.post("/v1/topics/t/jobs", BODY)
        if said.status == 507:
            assert said.code == "disk_full", said
            return ids
        assert said.status == 201, said
        ids.add(said.json["id"])
        assert len(ids) < 1000


def fill_by_beanstalk(client):
    """The same in the tube default: how many jobs found room all the same, since the server clears away behind a
    commit or needs no new page for this one."""
    taken = 0
    while True:
        client.send(client.put_bytes(BODY))
        word = client.reply().word
        if word == "OUT_OF_MEMORY":
            return taken
        assert word == "INSERTED"
        taken += 1
        assert taken < 1000


def test_a_full_disk_of_the_database(tmp_path, disk):
    maria = Server(home=tmp_path, data=disk.folder, before=disk.enter)
    with Both(maria=maria) as both, web_server(tmp_path / "a", *both.tarry()) as node:
        web = ready_web(node)
        kept = fill(web)
        assert len(kept) > 20 and disk.free_bytes() < 8 << 20, len(kept)
        reason = web.get("/readyz").json["reasons"][0]
        assert reason["code"] == "sql_full" and "full" in reason["message"] and str(maria.port) in reason["message"]

        # What needs no room, or little, goes on, and one who empties it makes room.
        assert web.get("/v1/topics/t").json["ready"] == len(kept)
        assert web.get(f"/v1/jobs/{min(kept)}").status == 200
        with Client(served(node)) as client:
            assert fill_by_beanstalk(client) < len(kept)

        def push():
            said = web.post("/v1/topics/t/jobs", BODY)
            assert said.status in (201, 507), said
            return said.json["id"] if said.status == 201 else None
        while (more := push()) is None and kept:
            job, = web.reserve("t", wait="20s")
            assert web.post(f"/v1/jobs/{job['id']}/ack", lease=job["lease"]).status == 200
            kept.remove(job["id"])
        kept.add(more or until(push))

        # The administrator makes room; and what was answered is there, though the server dies.
        kept |= fill(web)
        disk.grow(2 * SIZE_MIB)
        kept.add(until(push))
        maria.kill()
        maria.start()
        until(lambda: web.get("/readyz").status == 200)
        pages, cursor = set(), None
        while cursor is not None or not pages:
            page = web.get("/v1/jobs", topic="t", limit="1000", **({"cursor": cursor} if cursor else {})).json
            pages |= {job["id"] for job in page["jobs"]}
            cursor = page["cursor"]
        assert pages == kept
        kept.add(push())
        assert node.stop() == 0, node.said
        assert "The database answers again" in node.said
