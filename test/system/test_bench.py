"""bench-load notices a server that lies, and names the lie.

A proxy stands between the generator and a real tarry or redis-server and changes one message: the
third that its lie fits. The figures must then count exactly that and the status must be 1; without
a lie the same run must be clean. All runs start together, as most of them only wait.
"""
import concurrent.futures
import contextlib
import pathlib
import re
import shlex
import shutil
import socket
import subprocess
import tempfile
import threading
import time

import pytest

from beanstalk import Tarry
from harness import PATIENCE_S, TARRY
from web import web_port

BENCH_LOAD = pathlib.Path(TARRY).with_name("bench-load")
REDIS = shutil.which("redis-server")
AT_ONCE = 16
NTH = 3           # the message that is changed: not the first, whose job has the number 0
FAR_S = 1000      # a delay from here on is one that the run does not see the end of
ALIAS = 10 ** 12  # is added to an id that the generator is not to know
COUNT = 24        # jobs of a run
CHECKS = ("lost", "twice", "bad", "early", "wrong")


# ---- Messages: a list of words, and a body as the last one.

class Beanstalk:
    """Requests and replies are alike."""
    name = "beanstalk"
    bodies = {b"put", b"RESERVED", b"FOUND", b"OK"}

    @classmethod
    def read(cls, stream):
        """The next message, or None at the end."""
        line = stream.readline()
        if not line.endswith(b"\r\n"):
            return None
        words = line[:-2].split(b" ")
        if words[0] in cls.bodies:
            words.append(stream.read(int(words[-1]) + 2)[:-2])
        return words

    hear = read

    @classmethod
    def write(cls, words):
        if words[0] in cls.bodies:
            return b"%s\r\n%s\r\n" % (b" ".join(words[:-1]), words[-1])
        return b" ".join(words) + b"\r\n"

    @staticmethod
    def keep_up(words, lie):
        """Makes a lie good that was told before."""
        if words[0] == b"RELEASED" and lie is again:
            return [b"DELETED"]
        if words[0] == b"delete" and int(words[1]) > ALIAS:
            return [b"delete", b"%d" % (int(words[1]) - ALIAS)]
        return words


class Resp:
    """Requests are arrays of strings; replies pass as they are."""
    name = "redis"

    @staticmethod
    def read(stream):
        head = stream.readline()
        if not head.endswith(b"\r\n"):
            return None
        return [stream.read(int(stream.readline()[1:]) + 2)[:-2] for _ in range(int(head[1:]))]

    @staticmethod
    def hear(stream):
        data = stream.read1()
        return [b"", data] if data else None

    @staticmethod
    def write(words):
        if words[0] == b"":
            return words[1]
        return b"".join([b"*%d\r\n" % len(words),
                         *(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)])

    @staticmethod
    def keep_up(words, _):
        return words


class Http:
    """Method or version, path or status, and the body; the headers do not matter here."""
    name = "http"

    @staticmethod
    def read(stream):
        first = stream.readline().split(b" ")
        size = 0
        while (line := stream.readline()) not in (b"\r\n", b""):
            if line.lower().startswith(b"content-length:"):
                size = int(line.split(b":")[1])
        return [first[0], first[1], stream.read(size)] if len(first) > 1 else None

    hear = read

    @staticmethod
    def write(words):
        first = b"%s %s said" if words[0].startswith(b"HTTP/") else b"%s %s HTTP/1.1"
        return (first % (words[0], words[1]) + b"\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s"
                % (len(words[2]), words[2]))

    @staticmethod
    def keep_up(words, _):
        """The job whose id was changed is known under its own."""
        asked = re.match(rb"/v1/jobs/(\d+)/ack", words[1])
        if asked and int(asked[1]) > ALIAS:
            return [words[0], words[1].replace(asked[1], b"%d" % (int(asked[1]) - ALIAS)), words[2]]
        return words


# ---- Lies: each gives a message to send instead, or nothing when it does not fit.

def near(m):
    return m[0] == b"put" and int(m[2]) < FAR_S


def flipped(body, at):
    body = bytearray(body)
    body[at] ^= 1
    return bytes(body)


def again(m):
    """What was done is put back."""
    return m[0] == b"delete" and [b"release", m[1], b"0", b"0"]


def never(m):
    return near(m) and [*m[:2], b"1000000", *m[3:]]


def soon(m):
    return near(m) and int(m[2]) > 0 and [*m[:2], b"0", *m[3:]]


def soon_if_far(m):
    return m[0] == b"put" and int(m[2]) >= FAR_S and [*m[:2], b"0", *m[3:]]


def last_byte(m):
    return near(m) and [*m[:-1], flipped(m[-1], -1)]


def first_byte(m):
    """The body of one job with the number of another."""
    return near(m) and [*m[:-1], flipped(m[-1], 0)]


def shorter(m):
    return near(m) and [*m[:4], b"%d" % (len(m[-1]) - 1), m[-1][:-1]]


def other_id(m):
    return m[0] == b"RESERVED" and [m[0], b"%d" % (int(m[1]) + ALIAS), *m[2:]]


def no_put(m):
    return near(m) and [b"nonsense"]


def no_take(m):
    return m[0] == b"reserve" and [b"nonsense"]


def no_delete(m):
    return m[0] == b"delete" and [b"delete", b"%d" % (ALIAS - 1)]


def no_use(m):
    return m[0] == b"use" and [b"nonsense"]


def no_number(m):
    return m[0] == b"INSERTED" and [m[0], b"x"]


def longer_word(m):
    return m[0] == b"DELETED" and [b"DELETED_NOT"]


def other_body(m):
    return m[0] in (b"RESERVED", b"FOUND") and [*m[:-1], flipped(m[-1], -1)]


def other_found(m):
    return m[0] in (b"RESERVED", b"FOUND") and [m[0], b"%d" % (int(m[1]) + ALIAS), *m[2:]]


def nowhere(m):
    return m[0] in (b"FOUND", b"OK", b"DELETED", b"RELEASED") and [b"NOT_FOUND"]


def other_text(m):
    return m[0] == b"OK" and [*m[:-1], m[-1].replace(b"delayed", b"delaxed")]


def not_used(m):
    return m[0] == b"USING" and [b"NOT_FOUND"]


def not_reserved(m):
    """reserve-job finds nothing, so release does not, either."""
    return m[0] == b"reserve-job" and [m[0], b"%d" % ALIAS]


def one_more(m):
    return m[0] == b"INSERTED" and [m[0], m[1] + b"\r\nDELETED"]


def redis_near(m):
    return (m[0] == b"EVALSHA" and len(m) == 9
            and int(m[-1]) < (time.time() + FAR_S) * 1e6)


def script(text, *args):
    return [b"EVAL", text, b"0", *args]


def redis_again(m):
    return m[0] == b"HDEL" and script(b"redis.call('LPUSH', 'q:ready', ARGV[1]) return 1", m[2])


def redis_never(m):
    return redis_near(m) and script(b"return 1")


def redis_soon(m):
    return redis_near(m) and m[-1] != b"0" and [*m[:-1], b"1"]


def redis_last_byte(m):
    return redis_near(m) and [*m[:-2], flipped(m[-2], -1), m[-1]]


def redis_other_body(m):
    """A good one, but of the last job."""
    return m[0] == b"HGET" and [*m[:2], b"%d" % (COUNT - 1)]


def redis_other_number(m):
    return redis_near(m) and [*m[:6], b"%d" % ALIAS, *m[7:]]


NO = script(b"return redis.error_reply('ERR no')")


def redis_no_put(m):
    return redis_near(m) and NO


def redis_no_take(m):
    return m[0] == b"BLPOP" and NO


def redis_no_delete(m):
    return m[0] == b"HDEL" and script(b"return 0")


def redis_no_move(m):
    return m[0] == b"EVALSHA" and len(m) == 7 and NO


def redis_no_cancel(m):
    return m[0] == b"EVALSHA" and len(m) == 7 and script(b"return 0")


def redis_no_change(m):
    return m[0] == b"ZADD" and script(b"return 0")


def redis_no_state(m):
    return m[0] == b"ZSCORE" and script(b"return false")


def redis_no_count(m):
    return m[0] == b"ZCARD" and NO


def redis_no_first(m):
    return m[0] == b"EVALSHA" and len(m) == 6 and NO


def redis_no_body(m):
    return m[0] == b"HGET" and [b"HGET", b"q:none", m[2]]


def http_push(m):
    """Its delay."""
    found = re.search(rb"/jobs\?delay=(\d+)$", m[1])
    return found and int(found[1])


def http_near(m):
    return http_push(m) is not None and http_push(m) < FAR_S


def http_due(m, delay):
    return [m[0], re.sub(rb"delay=\d+", b"delay=%d" % delay, m[1]), m[2]]


def http_again(m):
    return b"/ack?" in m[1] and [m[0], m[1].replace(b"/ack?", b"/release?delay=0&"), m[2]]


def http_never(m):
    return http_near(m) and http_due(m, 1000000)


def http_soon(m):
    return http_near(m) and http_push(m) > 0 and http_due(m, 0)


def http_last_byte(m):
    return http_near(m) and [*m[:2], flipped(m[2], -1)]


def http_shorter(m):
    return http_near(m) and [*m[:2], m[2][:-1]]


def http_other_id(m):
    found = re.match(rb'{"jobs":\[{"id":"(\d+)"', m[2])
    return found and [*m[:2], m[2].replace(b'"%s"' % found[1], b'"%d"' % (int(found[1]) + ALIAS))]


def http_other_body(m):
    found = re.search(rb'"body_base64":"(.)', m[2])
    return found and [*m[:2], m[2].replace(found[0], found[0][:-1] + (
        b"B" if found[1] == b"A" else b"A"))]


def http_no_lease(m):
    return b'"lease":"' in m[2] and [*m[:2], m[2].replace(b'"lease":"', b'"lease":"x')]


def http_no_put(m):
    return http_near(m) and [m[0], b"/v1/nonsense", b""]


def http_no_take(m):
    return b"/reserve?" in m[1] and [m[0], b"/v1/nonsense", b""]


def http_no_ack(m):
    return b"/ack?" in m[1] and [m[0], m[1][:-1] + b"x", b""]


def http_no_number(m):
    return m[1] == b"201" and [*m[:2], m[2].replace(b'"id":"', b'"id":"x')]


def http_other_status(m):
    return m[1] == b"201" and [m[0], b"202", m[2]]


# ---- What is run.

MODES = {
    "put": "--mode put --conns 2 --depth 2 --delay 10",
    "cycle": "--mode cycle --conns 2 --depth 2",
    "drain": "--mode drain --conns 2 --depth 2",
    "burst": "--mode burst --conns 2 --depth 2 --ahead 3",
    # With this seed the eight are due after 1 or 2 seconds.
    "trickle": "--mode trickle --conns 3 --rate 1000 --seconds 0.008 --background 4 --seed 2182",
    "tubes": "--mode tubes --conns 2 --tubes 4 --count 64",
    "share": "--mode tubes --conns 2 --tubes 4 --share --count 64",
}
# These find jobs that are there already: so many, put before by FILL.
KNOWN = 2 * COUNT
ASK = f"--conns 2 --depth 2 --known {KNOWN} --tubes 2"
ASKS = {word: f"--mode ask --ask {word} {ASK}"
        for word in ("peek", "state", "cancel", "move", "first", "count")}
THERE = {"take": f"--mode take {ASK}", **ASKS}
FILL = f"--mode put --count {KNOWN} --conns 2 --depth 2 --tubes 2"
JOBS = {"trickle": 8, "tubes": 60, "share": 60}  # of others, COUNT; each tube has a far one, too
TAKING = ("cycle", "drain", "burst", "trickle", "tubes", "share")
OVER = {"lost": 1, "failed": "time is over"}

# Each lie, what is to be counted, and in which modes it can be told.
BEANSTALK_LIES = [
    (None, {}, (*MODES, *THERE)),
    (other_body, {"bad": 1}, ("take", "peek", "move", "first")),
    (other_found, {"wrong": 1}, ("peek", "move")),
    (nowhere, {"wrong": 1}, ASKS),
    (other_text, {"wrong": 1}, ("state", "count")),
    (not_used, {"wrong": 1}, ("first",)),
    (not_reserved, {"wrong": 1}, ("move",)),
    (again, {"twice": 1}, ("take",)),
    (again, {"twice": 1}, TAKING),
    (never, OVER, TAKING),
    (soon, {"early": 1}, ("burst", "trickle")),
    (soon_if_far, {"early": 1}, ("trickle", "tubes", "share")),
    (last_byte, {"bad": 1}, TAKING),
    (first_byte, {"bad": 1}, TAKING),
    (shorter, {"bad": 1}, ("cycle", "burst")),
    (other_id, {"wrong": 1}, TAKING),
    (no_put, {"wrong": 1}, MODES),
    (no_take, {"wrong": 1}, TAKING),
    (no_delete, {"wrong": 1}, TAKING),
    (no_use, {"wrong": 1}, ("tubes", "share")),
    (no_number, {"wrong": 1}, ("put",)),
    (longer_word, {"wrong": 1}, ("cycle",)),
    (one_more, {"failed": "unasked reply"}, ("put",)),
]
REDIS_MODES = ("put", "cycle", "drain", "burst", "trickle")
REDIS_TAKING = REDIS_MODES[1:]
REDIS_LIES = [
    (None, {}, (*REDIS_MODES, *THERE)),
    (redis_again, {"twice": 1}, ("take",)),
    (redis_no_body, {"wrong": 1}, ("take", "peek")),
    (redis_other_body, {"bad": 1}, ("peek",)),
    (redis_no_cancel, {"wrong": 1}, ("cancel",)),
    (redis_no_change, {"wrong": 1}, ("move",)),
    (redis_no_state, {"wrong": 1}, ("state",)),
    (redis_no_count, {"wrong": 1}, ("count",)),
    (redis_no_first, {"wrong": 1}, ("first",)),
    (redis_again, {"twice": 1}, REDIS_TAKING),
    (redis_never, OVER, REDIS_TAKING),
    (redis_soon, {"early": 1}, ("burst", "trickle")),
    (redis_last_byte, {"bad": 1}, REDIS_TAKING),
    (redis_other_body, {"bad": 1}, ("drain",)),
    (redis_other_number, {"bad": 1}, ("cycle",)),
    (redis_no_put, {"wrong": 1}, REDIS_MODES),
    (redis_no_take, {"wrong": 1}, REDIS_TAKING),
    (redis_no_body, {"wrong": 1}, REDIS_TAKING),
    (redis_no_delete, {"wrong": 1}, REDIS_TAKING),
    (redis_no_move, {"wrong": 1}, ("burst", "trickle")),
]


HTTP_LIES = [
    (None, {}, REDIS_MODES),
    (http_again, {"twice": 1}, REDIS_TAKING),
    (http_never, OVER, ("cycle", "drain")),
    (http_soon, {"early": 1}, ("burst", "trickle")),
    (http_last_byte, {"bad": 1}, REDIS_TAKING),
    (http_shorter, {"bad": 1}, ("cycle",)),
    (http_other_id, {"wrong": 1}, ("cycle", "drain")),
    (http_other_body, {"bad": 1}, ("cycle", "drain")),
    (http_no_lease, {"wrong": 1}, ("cycle", "drain")),
    (http_no_put, {"wrong": 1}, REDIS_MODES),
    (http_no_take, {"wrong": 1}, REDIS_TAKING),
    (http_no_ack, {"wrong": 1}, REDIS_TAKING),
    (http_no_number, {"wrong": 1}, ("put",)),
    (http_other_status, {"wrong": 1}, ("put",)),
]


class Web(Tarry):
    """A tarry whose HTTP port counts."""

    def __enter__(self):
        super().__enter__()
        self.address = "127.0.0.1", web_port(self.server)
        return self


class Redis:
    """Debian's redis-server on a socket in a folder of its own: no port that may be taken."""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.address = self.folder.name + "/socket"
        self.process = subprocess.Popen(
            [REDIS, "--port", "0", "--unixsocket", self.address, "--dir", self.folder.name,
             "--save", "", "--appendonly", "no"], stdout=subprocess.DEVNULL)
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                dial(self.address).close()
                return self
            except OSError:
                if time.monotonic() > end or self.process.poll() is not None:
                    self.__exit__()
                    raise
                time.sleep(0.01)

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()


def dial(address):
    """A connection to a port or to a socket in a folder."""
    if not isinstance(address, str):
        return socket.create_connection(address)
    s = socket.socket(socket.AF_UNIX)
    try:
        s.connect(address)
    except OSError:
        s.close()
        raise
    return s


class Proxy:
    """Passes messages on, and lies once. Use with `with`."""

    def __init__(self, protocol, behind, lie, nth):
        self.protocol, self.behind, self.lie, self.left = protocol, behind, lie, nth
        self.lock = threading.Lock()
        self.ends = []
        self.door = socket.create_server(("127.0.0.1", 0))
        self.port = self.door.getsockname()[1]
        threading.Thread(target=self.welcome, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for end in (self.door, *self.ends):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def welcome(self):
        with contextlib.suppress(OSError):
            while True:
                client = self.door.accept()[0]
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                server = dial(self.behind)
                self.ends += [client, server]
                for way in ((client, server, self.protocol.read),
                            (server, client, self.protocol.hear)):
                    threading.Thread(target=self.carry, args=way, daemon=True).start()

    def carry(self, source, sink, read):
        with contextlib.suppress(OSError, ValueError), source.makefile("rb") as stream:
            while message := read(stream):
                message = self.protocol.keep_up(self.changed(message), self.lie)
                sink.sendall(self.protocol.write(message))
            sink.shutdown(socket.SHUT_WR)

    def changed(self, message):
        """The lie in its place, when it is its turn."""
        with self.lock:
            other = self.lie(message) if self.lie and self.left > 0 else None
            if other:
                self.left -= 1
            return other if other and self.left == 0 else message


# ---- The tests.

def cases():
    for protocol, lies in ((Beanstalk, BEANSTALK_LIES), (Resp, REDIS_LIES),
                           (Http, HTTP_LIES)):
        for lie, counted, modes in lies:
            for mode in modes:
                yield pytest.param(protocol, lie, mode, counted, id="-".join(
                    [protocol.name, mode, lie.__name__ if lie else "honest"]))


CASES = list(cases())


def generate(protocol, proxy, *flags):
    done = subprocess.run([BENCH_LOAD, "--proto", protocol.name, "--port", str(proxy.port), *flags],
                          capture_output=True, text=True, timeout=2 * PATIENCE_S)
    assert done.stderr == "", done.stderr
    return done


def serve(protocol):
    if protocol is Resp:
        return Redis()
    never = "--sync", "never"
    return Tarry(*never) if protocol is Beanstalk else Web(*never, "--http", "127.0.0.1:0")


def load(protocol, lie, mode, counted):
    """Runs the generator through the proxy: (its status, its figures)."""
    count, nth = (1, 1) if lie is one_more else (COUNT, NTH)
    limit_s = 20 if counted is OVER else PATIENCE_S
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(serve(protocol))
        if mode in THERE:
            honest = stack.enter_context(Proxy(protocol, server.address, None, 0))
            delay = ("--delay", "0") if mode == "take" else ()
            assert generate(protocol, honest, *FILL.split(), *delay).returncode == 0
        proxy = stack.enter_context(Proxy(protocol, server.address, lie, nth))
        done = generate(protocol, proxy, "--count", str(count), "--limit", str(limit_s),
                        *({**MODES, **THERE}[mode]).split())
        assert lie is None or proxy.left == 0, "the lie was never told"
    return done.returncode, dict(word.split("=", 1) for word in shlex.split(done.stdout)[1:])


@pytest.fixture(scope="module")
def runs():
    """All runs, each as a future."""
    waits = sorted(CASES, key=lambda case: case.values[3] is not OVER)
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        yield {case.id: pool.submit(load, *case.values) for case in waits
               if REDIS or case.values[0] is not Resp}


@pytest.mark.parametrize("protocol,lie,mode,counted", CASES)
def test_a_lie_is_counted(runs, request, protocol, lie, mode, counted):
    if protocol is Resp and not REDIS:
        pytest.skip("no redis-server")
    status, figures = runs[request.node.callspec.id].result()
    found = {key: int(figures[key]) for key in CHECKS if figures[key] != "0"}
    if "failed" in figures:
        found["failed"] = figures["failed"]
    assert (status, found) == (1 if lie else 0, counted), figures
    if lie is None:
        assert int(figures["jobs"]) == JOBS.get(mode, COUNT), figures
