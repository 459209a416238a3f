"""Real receivers for outlets: Redis and RabbitMQ of Debian, and the Kafka cluster of kafka-tool.

Each has its files in a folder of the test, listens on free ports of 127.0.0.1, keeps what it
confirmed over a `kill`, and can be started again on the same port. Use them with `with`.
"""
import glob
import json
import os
import pathlib
import signal
import socket
import subprocess
import time

import pytest

from harness import PATIENCE_S, TARRY
from ports import free_port
from web import Web, web_port, web_server

KAFKA_TOOL = os.environ.get("KAFKA_TOOL", pathlib.Path(TARRY).parent / "kafka-tool")


def until(what, patience=PATIENCE_S, pause=0.05):
    """The first true thing that what() gives."""
    end = time.monotonic() + patience
    while True:
        found = what()
        if found:
            return found
        assert time.monotonic() < end, f"waited {patience} s for {what}"
        time.sleep(pause)


class Process:
    """A server that is started, killed, and started again."""

    def __init__(self):
        self.process = None

    def launch(self, args, folder, **env):
        log = open(pathlib.Path(folder) / "broker.log", "ab")
        with log:
            self.process = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            cwd=folder, env={**os.environ, **env})

    def kill(self):
        """As a crash: nothing is tidied up."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def pause(self):
        """It does not answer, and does not hang up."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


class Redis(Process):
    """Redis that syncs before it answers."""

    def __init__(self, folder, password=None):
        super().__init__()
        self.folder = folder
        self.password = password
        self.port = free_port()

    def start(self, *flags):
        secret = ["--requirepass", self.password] if self.password else []
        self.launch(["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "",
                     "--appendonly", "yes", "--appendfsync", "always", *secret, *flags],
                    self.folder)
        until(self.answers)
        return self

    def answers(self):
        try:
            return self.ask("PING") == b"PONG"
        except OSError:
            return False

    def ask(self, *words, db=0):
        """One command on a connection of its own; an error raises."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S) as wire:
            stream = wire.makefile("rwb")
            if self.password:
                self._say(stream, "AUTH", self.password)
            if db:
                self._say(stream, "SELECT", str(db))
            return self._say(stream, *words)

    def _say(self, stream, *words):
        words = [w if isinstance(w, bytes) else str(w).encode() for w in words]
        stream.write(b"*%d\r\n" % len(words))
        stream.write(b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
        stream.flush()
        return self._hear(stream)

    def _hear(self, stream):
        line = stream.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("cut off")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            if rest.startswith(b"LOADING"):
                raise ConnectionError(rest.decode())
            raise AssertionError(rest.decode())
        if kind == b"+":
            return rest
        if kind == b":":
            return int(rest)
        if int(rest) < 0:
            return None
        if kind == b"$":
            return stream.read(int(rest) + 2)[:-2]
        return [self._hear(stream) for _ in range(int(rest))]

    def bodies(self, name, db=0):
        """What is in a list, oldest first."""
        return self.ask("LRANGE", name, 0, -1, db=db)[::-1]

    def entries(self, name):
        """What is in a stream, oldest first, as dicts."""
        return [dict(zip(e[1][::2], e[1][1::2])) for e in self.ask("XRANGE", name, "-", "+")]


class Rabbit(Process):
    """RabbitMQ with a port mapper of its own, so that it meets no other node."""

    def __init__(self, folder):
        super().__init__()
        self.folder = pathlib.Path(folder)
        self.port = free_port()
        self.dist = free_port()
        self.names = free_port()
        self.tls_port = free_port()
        self.mapper = subprocess.Popen(
            ["epmd", "-address", "127.0.0.1", "-port", str(self.names)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __exit__(self, *_):
        self.kill()
        self.mapper.kill()
        self.mapper.wait()

    def use_tls(self, cert, key):
        """Beside the plain port."""
        (self.folder / "rabbitmq.conf").write_text(
            f"listeners.ssl.1 = 127.0.0.1:{self.tls_port}\n"
            f"listeners.ssl.2 = 127.0.0.2:{self.tls_port}\n"
            f"ssl_options.cacertfile = {cert}\nssl_options.certfile = {cert}\n"
            f"ssl_options.keyfile = {key}\n")

    def start(self):
        (self.folder / "plugins").write_text("[].\n")
        script, = glob.glob("/usr/lib/rabbitmq/lib/*/sbin/rabbitmq-server")
        # Systemd stands for: one process, without a shell around it that would outlive a kill.
        self.launch([script], self.folder, HOME=str(self.folder), RUNNING_UNDER_SYSTEMD="true",
                    ERL_EPMD_ADDRESS="127.0.0.1", ERL_EPMD_PORT=str(self.names),
                    RABBITMQ_CONF_ENV_FILE="/dev/null",
                    RABBITMQ_CONFIG_FILE=str(self.folder / "rabbitmq"),
                    RABBITMQ_NODENAME=f"tarry{self.port}@localhost",
                    RABBITMQ_NODE_IP_ADDRESS="127.0.0.1", RABBITMQ_NODE_PORT=str(self.port),
                    RABBITMQ_DIST_PORT=str(self.dist),
                    RABBITMQ_MNESIA_BASE=str(self.folder / "db"),
                    RABBITMQ_LOG_BASE=str(self.folder / "log"), RABBITMQ_LOGS="-",
                    RABBITMQ_ENABLED_PLUGINS_FILE=str(self.folder / "plugins"),
                    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=
                    "+S 1:1 -kernel inet_dist_use_interface {127,0,0,1}")
        until(self.answers, patience=300)  # twenty seconds are usual on a busy machine
        return self

    def answers(self):
        import pika
        assert self.process.poll() is None, (self.folder / "broker.log").read_text()[-2000:]
        try:
            self.connect().close()
            return True
        except (pika.exceptions.AMQPError, OSError):
            return False

    def connect(self):
        import pika
        return pika.BlockingConnection(pika.ConnectionParameters(
            "127.0.0.1", self.port, socket_timeout=PATIENCE_S, blocked_connection_timeout=PATIENCE_S))

    def queue(self, name, exchange=None, key=None, **arguments):
        """A durable queue, bound to a durable exchange if one is named."""
        wire = self.connect()
        channel = wire.channel()
        channel.queue_declare(name, durable=True, arguments=arguments or None)
        if exchange:
            channel.exchange_declare(exchange, "direct", durable=True)
            channel.queue_bind(name, exchange, key)
        wire.close()

    def count(self, name):
        wire = self.connect()
        count = wire.channel().queue_declare(name, passive=True).method.message_count
        wire.close()
        return count

    def drain(self, name):
        """All messages of a queue, which is empty then: [(properties, body)]."""
        wire = self.connect()
        channel = wire.channel()
        found = []
        while True:
            method, properties, body = channel.basic_get(name, auto_ack=True)
            if method is None:
                wire.close()
                return found
            found.append((properties, body))


class Kafka(Process):
    """kafka-tool: what was confirmed is kept while it runs; `say("down")` is its death."""

    def __init__(self, folder):
        super().__init__()
        log = open(pathlib.Path(folder) / "kafka.log", "ab")
        with log:
            self.process = subprocess.Popen([KAFKA_TOOL], stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, stderr=log, text=True)
        self.brokers = self.process.stdout.readline().split()[1]

    def say(self, line):
        """Does it, and gives the lines that come before the answer."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        told = []
        for answer in self.process.stdout:
            if answer == "ok\n":
                return told
            assert not answer.startswith("failed"), f"{line}: {answer}"
            told.append(answer.split())
        raise AssertionError("kafka-tool ended")

    def read(self, topic, count, ms=60000):
        """[(key, body, headers)], at most so many."""
        def plain(text):
            return b"" if text == "-" else bytes.fromhex(text)
        found = []
        for _, key, body, *headers in self.say(f"read {topic} {count} {ms}"):
            headers = dict(h.split("=", 1) for h in headers)
            found.append((plain(key), plain(body),
                          {name: plain(value) for name, value in headers.items()}))
        return found

    def read_all(self, topic, least, most, ms=1000):
        """The same, when so many are there; what is too much would come with them. A reader may take longer than ms to
        begin, so it is tried again."""
        return until(lambda: len(found := self.read(topic, most, ms)) >= least and found)

    def kill(self):
        if self.process is not None:
            self.process.stdin.close()
            self.process.stdout.close()
        super().kill()


# ---- What the tests of all three have in common.

def outlet_server(folder, *flags, allow_private=True, **more):
    """A server that may send to this machine."""
    private = ["--set", "outlet.allow_private=on"] if allow_private else []
    return web_server(pathlib.Path(folder) / "data", *private, *flags, **more)


# Fixtures, for who imports them.

@pytest.fixture
def server(tmp_path):
    with outlet_server(tmp_path) as server:
        yield server


@pytest.fixture
def web(server):
    client = Web(web_port(server))
    yield client
    client.close()


def set_outlet(web, name, **deliver):
    """Jobs of the topic are sent from now on; what fails is tried again soon, without end."""
    answer = web.ask("PUT", f"/v1/topics/{name}", json.dumps(
        {"deliver": deliver, "retries": -1, "backoff": "200ms"}))
    assert answer.status in (200, 201), answer
    return answer.json


def left(web, topic):
    """How many jobs of the topic are not done."""
    jobs = web.get(f"/v1/topics/{topic}").json
    return sum(jobs[state] for state in ("delayed", "ready", "reserved", "dead"))


def outlet(web, topic):
    """What the server tells of the outlet, which may not have begun yet."""
    none = {"failed": 0, "in_flight": 0, "breaker": "closed"}
    return {**none, **web.get(f"/v1/topics/{topic}").json.get("outlet", {})}
