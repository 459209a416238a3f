"""A tiny HTTP client for system tests: requests by http.client, and raw bytes where that is too polite."""
import contextlib
import http.client
import json
import socket
import time
import urllib.parse

from harness import PATIENCE_S, Server
from redis_cluster import until

KEPT_S = 30  # half of what limits.idle is as a rule: a test may do something else for longer
LISTENING = r"listening: http on 127\.0\.0\.1:(\d+)\n"


class Answer:
    """Status, headers and body of a reply; `json` is what the body says."""

    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def code(self):
        return self.json["error"]["code"]

    def __repr__(self):
        return f"{self.status} {self.body[:500]!r}"


class Web:
    """One client with a connection that is kept, but not for so long that the server may have closed it."""
    used = 0.0  # when it was heard from

    def __init__(self, port):
        self.port = port
        self.wire = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)

    def ask(self, method, path, body=None, headers=None, **query):
        if query:
            path += "?" + urllib.parse.urlencode(query)
        if time.monotonic() - self.used > KEPT_S:
            self.wire.close()  # it makes itself another one
        self.wire.request(method, path, body=body, headers=headers or {})
        reply = self.wire.getresponse()
        answer = Answer(reply.status, reply.headers, reply.read())
        self.used = time.monotonic()
        return answer

    def get(self, path, **query):
        return self.ask("GET", path, **query)

    def post(self, path, body=None, **query):
        return self.ask("POST", path, body, **query)

    def push(self, topic, body=b"", **query):
        answer = self.post(f"/v1/topics/{topic}/jobs", body, **query)
        assert answer.status in (200, 201), answer
        return answer.json

    def reserve(self, topic, **query):
        """The jobs, perhaps none."""
        answer = self.post(f"/v1/topics/{topic}/reserve", **query)
        assert answer.status in (200, 204), answer
        return answer.json["jobs"] if answer.status == 200 else []

    def close(self):
        self.wire.close()


def web_server(data, *flags, **more):
    return Server(data, "--http", "127.0.0.1:0", *flags, **more)


def web_port(server):
    server.ready()
    return int(server.wait_for(LISTENING)[1])


def ready_web(server):
    """A client, as soon as the server serves; one that has its jobs elsewhere listens before it knows that they can be had."""
    made = Web(web_port(server))
    until(lambda: made.get("/readyz").status == 200)
    return made


@contextlib.contextmanager
def raw(port):
    """A socket to the port."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as wire:
        yield wire


def read_answer(stream, method="GET"):
    """One reply from a file made of a socket."""
    line = stream.readline()
    if not line:
        return None
    headers = http.client.parse_headers(stream)
    status = int(line.split()[1])
    length = 0 if method == "HEAD" or status in (100, 204) else int(headers["Content-Length"])
    return Answer(status, headers, stream.read(length))


def talk(port, sent, count=1):
    """Sends raw bytes and gives so many replies; None where the server closed instead."""
    with raw(port) as wire:
        wire.sendall(sent)
        stream = wire.makefile("rb")
        return [read_answer(stream) for _ in range(count)]
