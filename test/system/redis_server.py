"""A redis-server of the tests' own, and a client that speaks just enough of its protocol."""
import shutil
import socket
import subprocess
import tempfile
import time

PATIENCE_S = 120


class Error(Exception):
    """What Redis answered with a minus sign."""


class Client:
    """One connection. Replies: bytes, int, None or lists of these."""

    def __init__(self, where):
        """where: the path of a socket file, or a port of loopback."""
        self.sock = socket.socket(socket.AF_UNIX if isinstance(where, str) else socket.AF_INET)
        self.sock.settimeout(PATIENCE_S)
        self.sock.connect(where if isinstance(where, str) else ("127.0.0.1", where))
        self.file = self.sock.makefile("rb")

    def close(self):
        self.file.close()
        self.sock.close()

    def send(self, *args):
        out = [b"*%d\r\n" % len(args)]
        for arg in args:
            arg = arg if isinstance(arg, bytes) else str(arg).encode()
            out.append(b"$%d\r\n%s\r\n" % (len(arg), arg))
        self.sock.sendall(b"".join(out))

    def read(self):
        line = self.file.readline()
        assert line.endswith(b"\r\n"), "the connection was closed"
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            return Error(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return None if rest == b"-1" else [self.read() for _ in range(int(rest))]
        return rest

    def __call__(self, *args):
        self.send(*args)
        reply = self.read()
        if isinstance(reply, Error):
            raise reply
        return reply


class Server:
    """A running redis-server on a socket file. Use with `with`: it is gone afterwards."""

    def __init__(self, *flags):
        self.folder = tempfile.mkdtemp(prefix="tarry-redis-")
        self.path = self.folder + "/socket"
        self.process = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", self.path, "--dir", self.folder,
             "--save", "", *flags], stdout=subprocess.DEVNULL)

    def client(self):
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                return Client(self.path)
            except OSError:
                assert self.process.poll() is None, "redis-server did not start"
                assert time.monotonic() < end
                time.sleep(0.01)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder)
