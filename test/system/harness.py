"""Starts the binaries for system tests, and waits for what they print instead of sleeping.

The build says where they are: TARRY_BIN and STORE_TOOL in the environment.
"""
import os
import pathlib
import re
import select
import signal
import subprocess
import time

TARRY = os.environ["TARRY_BIN"]
STORE_TOOL = os.environ["STORE_TOOL"]
LOCAL = ["--beanstalk", "127.0.0.1:0", "--http", "off"]  # a free port
PATIENCE_S = 120  # how long anything may take on a busy machine before a test gives up

STOP_S = 30  # a stop ends within seconds (the figures are bench/run's); more than that, and it waits for somebody

READY = re.compile(r"(?:(\d+) jobs?, )?ready in (\d+) ms")
LISTENS = re.compile(r"listening: beanstalk on \S+:(\d+)\n")


def sanitized():
    """Is this a build with a sanitizer? Such a binary is large, and tsan has a thread of its own."""
    binary = pathlib.Path(TARRY).read_bytes()
    return b"__asan_init" in binary or b"__tsan_init" in binary


def tarry(*args, **more):
    """Runs tarry to its end."""
    return subprocess.run([TARRY, *map(str, args)], capture_output=True, text=True,
                          timeout=PATIENCE_S, **more)


def tool(*args, status=0):
    """Runs store-tool to its end, which must be as expected, and gives its lines."""
    done = subprocess.run([STORE_TOOL, *map(str, args)], capture_output=True, text=True,
                          timeout=PATIENCE_S)
    assert done.returncode == status, done.stderr
    return done.stdout.splitlines()


class Server:
    """A running `tarry serve`. Use with `with`: whatever happens, it is gone afterwards."""

    def __init__(self, data, *flags, before=()):
        port = [] if "--beanstalk" in flags else ["--beanstalk", "127.0.0.1:0"]
        port += [] if "--http" in flags else ["--http", "off"]
        self.started = time.monotonic()
        self.said = ""
        self.process = subprocess.Popen(
            [*before, TARRY, "serve", "--data", str(data), *port, *flags],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def wait_for(self, pattern):
        """The first match in what it has said, as soon as it is there; stderr counts too."""
        end = time.monotonic() + PATIENCE_S
        while True:
            found = re.search(pattern, self.said)
            if found:
                return found
            ready, _, _ = select.select([self.process.stdout], [], [],
                                        max(0, end - time.monotonic()))
            more = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            assert more, f"no {pattern!r} in {self.said!r}"
            self.said += more.decode()

    def ready(self):
        """Waits until it serves: (jobs found, ms that it says, ms that we saw)."""
        found = self.wait_for(READY)
        return int(found[1] or 0), int(found[2]), (time.monotonic() - self.started) * 1000

    def port(self):
        """Waits until it listens: the number of its beanstalk port."""
        return int(self.wait_for(LISTENS)[1])

    def stop(self, number=signal.SIGTERM):
        """Sends a signal and gives the exit status; negative: died by a signal."""
        self.process.send_signal(number)
        return self.ended()

    def ended(self):
        status = self.process.wait(timeout=PATIENCE_S)
        self.said += self.process.stdout.read().decode()
        return status
