"""The dialogues of test/proto against tarry, and against beanstalkd, which shows that they are
true.

Each is played on a fresh server: in whole packets and, if no time passes in it, byte by byte.
"""
import concurrent.futures
import time

import pytest

import dialogue
from beanstalk import BEANSTALKD, SERVERS, Beanstalkd, Conn
from dialogue import Replay, Wrong, has_time, is_for

FILES = sorted(dialogue.FOLDER.glob("beanstalk-*.txt"))

needs_beanstalkd = pytest.mark.skipif(BEANSTALKD is None, reason="no beanstalkd")
SERVER_MARKS = {"tarry": (), "beanstalkd": needs_beanstalkd}
EACH_SERVER = [pytest.param(name, marks=SERVER_MARKS[name]) for name in SERVERS]


def cases(timed):
    for name in SERVERS:
        for path in FILES:
            text = path.read_text()
            if has_time(text) != timed or not is_for(text, name):
                continue
            for split in ("whole",) if timed else ("whole", "split"):
                yield pytest.param(name, path, split, marks=SERVER_MARKS[name],
                                   id=f"{name}-{path.stem.removeprefix('beanstalk-')}-{split}")


def play(name, path, split):
    return dialogue.play(SERVERS[name], path, split == "split")


@pytest.fixture(scope="module")
def timed_plays():
    """Those in which time passes mostly sleep, so they do it together."""
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        yield {(case.values[0], case.values[1]): pool.submit(play, *case.values)
               for case in cases(timed=True) if not (BEANSTALKD is None
                                                     and case.values[0] == "beanstalkd")}


@pytest.mark.parametrize("name, path, split", cases(timed=True))
def test_dialogue_with_time(name, path, split, timed_plays):
    wrong = timed_plays[name, path].result()
    assert not wrong, wrong


@pytest.mark.parametrize("name, path, split", cases(timed=False))
def test_dialogue(name, path, split):
    wrong = play(name, path, split)
    assert not wrong, wrong


def test_files_are_there():
    assert len(FILES) >= 29


@needs_beanstalkd
@pytest.mark.parametrize("text", [
    r"A> use a\r\n" "\n" r"A< USING b\r\n",
    r"A> use a\r\n" "\n" r"A< USING a\r\n." "\n",
    r"A> use a\r\n" "\n" r"A< USING a\r" "\n",
    r"A> use a\r\n" "\n" r"A< USING $1\r\n" "\n",
    r"A> put 0 0 60 0\r\n\r\nput 0 0 60 0\r\n\r\n" "\n" r"A< INSERTED $1\r\nINSERTED $1\r\n" "\n",
    r"A> use a\r\n",
    r"A> use a\r\n" "\nA<>",
    r"A> use a\r\n" "\nA.eof",
    r"A> quit\r\n" "\nA<>",
    r"A> delete $1\r\n",
    r"A> stats\r\n" "\nA<ok cmd-stats: 2",
    r"A> stats\r\n" "\nA<ok cmd-stats: 2..3",
    r"A> stats\r\n" "\nA<ok cmd-nothing: 1",
    r"A> use a\r\n" "\nA<ok cmd-stats: 1",
    r"A> stats\r\n" "\nA<keys current-jobs-ready current-jobs-urgent",
    r"A> list-tubes\r\n" "\nA<list",
    r"A> list-tubes\r\n" "\nA<list default other",
    r"A> list-tubes\r\n" "\nA<list defaul",
    "A use",
    "!nobody A> x",
    "!local,tarry A> x",
    "!sql A> x\n" r"!local,redis A> use a\r\n" "\nA<>",
], ids=range(22))
def test_a_wrong_dialogue_is_noticed(text, monkeypatch):
    """For what must come and does not it waits less than else, for what must not come longer."""
    for name in ("PATIENCE_S", "SILENCE_S", "SETTLE_S"):
        monkeypatch.setattr(dialogue, name, 0.3)
    with Beanstalkd() as server, Conn(server.address) as conn, pytest.raises(Wrong):
        assert conn.ask(b"use x\r\n") == b"USING x\r\n"  # it is up
        Replay(server, split=False).run(text)


@needs_beanstalkd
def test_every_step_is_understood():
    """A dialogue with all kinds of lines, all of them true."""
    text = r"""# comment

A> put 0 0 60 9\r\n\x61\t\n\0\\\${\{c*2}\r\n
A< INSERTED $1\r\n
B> stats-job $1\r\n
B<ok id: $1 | ttr: 59..61 | state: ready
!tarry A< something else\r\n
!beanstalkd,tarry A> peek $1\r\n
!redis,sql A< something else\r\n
!sql,local A< FOUND $1 9\r\na\t\n\0\\\${cc\r\n
+10ms
A> list-tubes\r\nstats-tube default\r\nreserve\r\nreserve\r\n
A<list default
A<keys name current-jobs-urgent
A< RESERVED $1 9\r\na\t\n\0\\\${cc\r\n
A<>
A.halfclose
A< TIMED_OUT\r\n
A.eof
B.close
B> use $1\r\n
B< USING $1\r\n
drain
B> put 0 0 60 0\r\n\r\n
B< DRAINING\r\n
!tarry
B< nothing of this is read
"""
    for split in (False, True):
        with Beanstalkd() as server:
            Replay(server, split).run(text)


def one_read(conn, command):
    """Sends a command, if any, and gives what the first read finds."""
    if command:
        conn.send(command + b"\r\n")
    assert conn.more(dialogue.PATIENCE_S)
    return conn.take(len(conn.got))


@pytest.mark.parametrize("name", EACH_SERVER)
def test_a_reply_with_a_body_is_one_write(name):
    """Some clients take what one read gives for a whole reply."""
    with SERVERS[name]() as server, Conn(server.address) as conn, Conn(server.address) as other:
        body = b" 1 1000\r\n" + b"x" * 1000 + b"\r\n"
        assert conn.ask(b"put 0 0 60 1000\r\n" + body[9:]) == b"INSERTED 1\r\n"
        for command, word in ((b"peek 1", b"FOUND"), (b"peek-ready", b"FOUND"),
                              (b"reserve-job 1", b"RESERVED")):
            for _ in range(1 if word == b"RESERVED" else 50):
                assert one_read(conn, command) == word + body
        for command in (b"stats", b"stats-tube default", b"stats-job 1", b"list-tubes"):
            for _ in range(50):
                got = one_read(conn, command)
                assert got.startswith(b"OK ") and got.endswith(b"\n\r\n")
        other.send(b"reserve\r\n")
        time.sleep(0.05)
        conn.send(b"release 1 0 0\r\n")
        assert one_read(other, b"") == b"RESERVED" + body
