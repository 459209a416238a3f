"""The two servers that speak the beanstalk protocol, started for a test, and a plain connection.

beanstalkd is the reference. It gets its listening socket from us, as systemd would give it: so no
port can be taken by someone else in between, and no connection made to wait for it is counted.
"""
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from harness import PATIENCE_S, Server

LISTENING = r"listening: beanstalk on 127\.0\.0\.1:(\d+)"


class Tarry:
    """A tarry with an empty store and a beanstalk port."""
    name = "tarry"
    quotes = '"'  # around names in stats, as beanstalkd 1.13 does it

    def __init__(self, *flags):
        self.flags = flags

    def __enter__(self):
        self.data = tempfile.TemporaryDirectory()
        self.server = Server(self.data.name + "/store", "--beanstalk", "127.0.0.1:0", *self.flags)
        try:
            self.address = "127.0.0.1", int(self.server.wait_for(LISTENING)[1])
        except BaseException as error:
            self.__exit__(error)
            raise
        return self

    def __exit__(self, error=None, *_):
        """If all went well so far, it must also stop well; a sanitizer may have said something."""
        try:
            if error is None:
                assert self.server.stop() == 0, self.server.said
                assert "runtime error" not in self.server.said, self.server.said
        finally:
            self.server.__exit__()
            self.data.cleanup()

    def drain(self):
        self.server.process.send_signal(signal.SIGUSR1)
        self.server.wait_for("draining")


class Beanstalkd:
    """Debian's beanstalkd, without a log."""
    name = "beanstalkd"
    quotes = ""

    def __init__(self, *flags):
        self.flags = flags

    def __enter__(self):
        with socket.create_server(("127.0.0.1", 0)) as port:
            self.address = port.getsockname()
            take = 'exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec beanstalkd "$@"'
            self.process = subprocess.Popen(["sh", "-c", take, "sh", *self.flags], stdin=port,
                                            stderr=subprocess.DEVNULL)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def drain(self):
        self.process.send_signal(signal.SIGUSR1)
        time.sleep(0.05)  # it says nothing


SERVERS = {"tarry": Tarry, "beanstalkd": Beanstalkd}
BEANSTALKD = shutil.which("beanstalkd")


class Conn:
    """One connection: sends bytes, gives back exactly as many as asked for."""

    def __init__(self, address):
        self.socket = socket.create_connection(address, timeout=PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.got = b""
        self.ended = False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data, split=False):
        """In one piece, or byte by byte; a long body only begins and ends so."""
        if not split:
            self.socket.sendall(data)
            return
        edge = 300
        for byte in data[:edge]:
            self.socket.send(bytes([byte]))
        self.socket.sendall(data[edge:-edge])
        for byte in data[max(edge, len(data) - edge):]:
            self.socket.send(bytes([byte]))

    def more(self, wait_s):
        """Reads what is there, waiting at most so long for something: was there something?"""
        if self.ended:
            return False
        self.socket.settimeout(wait_s)
        try:
            # Acknowledge at once: beanstalkd sends its next small reply only then, or after 40 ms.
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
            data = self.socket.recv(1 << 16)
        except (BlockingIOError, TimeoutError):
            return False
        except ConnectionResetError:
            data = b""
        self.ended = data == b""
        self.got += data
        return not self.ended

    def take(self, count):
        data, self.got = self.got[:count], self.got[count:]
        return data

    def line(self, wait_s=PATIENCE_S):
        """The next line with its CRLF; less if it does not come."""
        while b"\r\n" not in self.got and self.more(wait_s):
            pass
        return self.take(self.got.find(b"\r\n") + 2 if b"\r\n" in self.got else len(self.got))

    def bytes(self, count, wait_s=PATIENCE_S):
        """Exactly so many; less if they do not come."""
        while len(self.got) < count and self.more(wait_s):
            pass
        return self.take(count)

    def reply(self, wait_s=PATIENCE_S):
        """One whole reply, with its body if it has one; less if it does not come."""
        line = self.line(wait_s)
        words = line.split()
        if words and words[0] in (b"OK", b"RESERVED", b"FOUND") and line.endswith(b"\r\n"):
            return line + self.bytes(int(words[-1]) + 2, wait_s)
        return line

    def ask(self, data):
        """Sends, and gives one reply."""
        self.send(data)
        return self.reply()
