"""A tiny beanstalk client for system tests, and Debian's beanstalkd to hold a test against.

A command and its answer can be taken apart (`send`, `reply`), so that tests can pipeline, split
packets, wait on several connections at once, and stop in the middle of anything.
"""
import signal
import socket
from collections import namedtuple

from beanstalk import Beanstalkd
from harness import PATIENCE_S, Server

WITH_BODY = {b"RESERVED", b"FOUND", b"OK"}

Reply = namedtuple("Reply", "word args body")  # "RESERVED", ["1", "3"], b"abc"


class Client:
    """One connection. Use with `with`."""

    def __init__(self, port, patience_s=PATIENCE_S):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=patience_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.got = bytearray()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    # ---- bytes ----

    def send(self, data):
        self.socket.sendall(data.encode() if isinstance(data, str) else data)

    def put_bytes(self, body, delay=0, pri=1024, ttr=60):
        return b"put %d %d %d %d\r\n%s\r\n" % (pri, delay, ttr, len(body), body)

    def more(self):
        """One more piece from the socket; EOFError when there is none."""
        piece = self.socket.recv(1 << 16)
        if not piece:
            raise EOFError(f"closed after {bytes(self.got)!r}")
        self.got += piece

    def whole(self):
        """The next reply if all of it is here, else None."""
        end = self.got.find(b"\r\n")
        if end < 0:
            return None
        words = bytes(self.got[:end]).split(b" ")
        body, at = None, end + 2
        if words[0] in WITH_BODY:
            size = int(words[-1])
            if len(self.got) < at + size + 2:
                return None
            body, at = bytes(self.got[at:at + size]), at + size + 2
            assert self.got[at - 2:at] == b"\r\n", bytes(self.got[:80])
        del self.got[:at]
        return Reply(words[0].decode(), [word.decode() for word in words[1:]], body)

    def reply(self):
        """Waits for the next reply."""
        while True:
            found = self.whole()
            if found is not None:
                return found
            self.more()

    # ---- commands ----

    def ask(self, line):
        """Sends one line, gives the reply."""
        self.send(line + "\r\n")
        return self.reply()

    def say(self, line):
        """Sends one line, gives the reply's line as text."""
        reply = self.ask(line)
        return " ".join([reply.word, *reply.args])

    def put(self, body, **how):
        """The new job's id."""
        self.send(self.put_bytes(body, **how))
        reply = self.reply()
        assert reply.word == "INSERTED", reply
        return int(reply.args[0])

    def reserve(self, wait_s=0):
        """(id, body), or None when none came."""
        reply = self.ask(f"reserve-with-timeout {wait_s}")
        if reply.word == "TIMED_OUT":
            return None
        assert reply.word == "RESERVED", reply
        return int(reply.args[0]), reply.body

    def peek(self, what):
        """The body of `peek what` (an id), or of peek-ready and so on; None when not found."""
        reply = self.ask(f"peek-{what}" if isinstance(what, str) else f"peek {what}")
        if reply.word == "NOT_FOUND":
            return None
        assert reply.word == "FOUND", reply
        return reply.body

    def table(self, line):
        """The key: value lines of a stats command; quotes are taken off. None when not found."""
        reply = self.ask(line)
        if reply.word == "NOT_FOUND":
            return None
        first, *rows = reply.body.decode().splitlines()
        assert (reply.word, first) == ("OK", "---"), reply
        pairs = [row.split(": ", 1) for row in rows]
        return {key: value.strip('"') for key, value in pairs}


class Reference(Beanstalkd):
    """Debian's beanstalkd, with the face of harness.Server as far as tests of both need it."""

    def port(self):
        return self.address[1]

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(timeout=PATIENCE_S)


def tarry_with_port(data, *flags, **more):
    """A tarry that listens on a free port of its own."""
    return Server(data, "--beanstalk", "127.0.0.1:0", *flags, **more)
