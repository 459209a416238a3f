"""A redis-server with a port of its own, and tarry on it: `--engine redis`.

Each tarry that is asked for gets keys of its own (redis.prefix), so that it begins with an empty
store though the server is the same.
"""
import concurrent.futures
import contextlib
import itertools
import shutil
import socket
import subprocess
import tempfile
import time

import dialogue
from beanstalk import LISTENING, Tarry
from dialogue import has_time
from harness import PATIENCE_S, Server
from ports import free_port
from redis_server import Client
from web import ready_web


class TcpClient(Client):
    """The same, over TCP."""

    def __init__(self, port):
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self.file = self.sock.makefile("rb")


class Redis:
    """A running redis-server. Use with `with`: it is gone afterwards."""
    numbers = itertools.count(1)
    timeout = "3s"

    def __init__(self, *flags, port=None):
        self.port = port or free_port()
        self.flags = flags
        self.folder = tempfile.mkdtemp(prefix="tarry-redis-")
        self.process = None

    def start(self):
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", self.folder,
             "--save", "", "--appendonly", "no", *self.flags], stdout=subprocess.DEVNULL)
        self.client().close()

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def client(self):
        """A connection; waits until there can be one, and it is answered."""
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                made = TcpClient(self.port)
                made.send("PING")
                made.read()  # an error is an answer, too
                return made
            except (OSError, AssertionError):
                assert self.process.poll() is None, "redis-server did not start"
                assert time.monotonic() < end
                time.sleep(0.01)

    def empty(self):
        """All that it has is gone."""
        client = self.client()
        assert client("FLUSHALL") == b"OK"
        client.close()

    def tarry(self, prefix=None):
        """Flags of a tarry on it, with an empty store if no prefix is given. A busy machine is no fault: an answer may
        take longer than it is given as a rule."""
        prefix = prefix or f"t{next(self.numbers)}:"
        return ["--engine", "redis", "--set", f"redis.servers=127.0.0.1:{self.port}", "--set",
                f"redis.timeout={self.timeout}", "--set", f"redis.prefix={prefix}"]

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.folder)


class OnServers(Tarry):
    """A tarry whose jobs are elsewhere. It begins to listen before it knows that they can be had."""
    # Of the node, since its start, and not of the tube; leases that ran out may be found by others.
    unlike = {"job-timeouts", "total-jobs"}

    def __init__(self, *flags):
        super().__init__("--http", "127.0.0.1:0", *flags)

    def __enter__(self):
        super().__enter__()
        try:
            ready_web(self.server).close()
        except BaseException as error:
            self.__exit__(error)
            raise
        return self


class OnRedis(OnServers):
    """A tarry with an empty store and a beanstalk port, for dialogues."""
    engine = "redis"

    def __init__(self, redis, *flags):
        super().__init__(*redis.tarry(), *flags)


# Of jobs of equal priority in tubes of different slots, ids do not say which came first.
FLAGS = {"beanstalk-order": ("--set", "cluster.slots=1")}


def play(kind, servers, path):
    """A dialogue with a fresh tarry of this kind: what is wrong, or nothing."""
    return dialogue.play(lambda: kind(servers, *FLAGS.get(path.stem, ())), path)


@contextlib.contextmanager
def plays(kind, servers, paths):
    """A function that plays one. Those in which time passes mostly sleep, so they do it together."""
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        timed = {path: pool.submit(play, kind, servers, path) for path in paths if has_time(path.read_text())}
        yield lambda path: timed[path].result() if path in timed else play(kind, servers, path)


def served(server):
    """Waits until a tarry has begun to serve; gives its beanstalk port."""
    server.wait_for(r"ready in \d+ ms")
    return int(server.wait_for(LISTENING)[1])


__all__ = ["OnRedis", "Redis", "Server", "plays", "served"]
