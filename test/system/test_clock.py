"""Clock steps, with libfaketime: a second and an hour, both ways, in flight and at the start.

libfaketime shifts what clock_gettime says of the wall clock by what stands in a file, which is read
at each call; the boot clock is left alone (FAKETIME_DONT_FAKE_MONOTONIC). Two things it cannot do:

 - It shifts timerfd_settime by the same offset, whatever the timer's clock; that is wrong for ours,
   on the boot clock. A library of one function, preloaded before it, goes around that.
 - A real step of the clock wakes the server by a timerfd (TFD_TIMER_CANCEL_ON_SET). This one does
   not, so the test sends any command after each step, and the server looks at the clock.

A clock that is over a minute ahead is believed after a second, so a step of an hour ahead takes a
second to show (doc/engine.md, "The clock").
"""
import glob
import os
import pathlib
import signal
import subprocess
import time

import pytest

from client import Client, tarry_with_port
from harness import PATIENCE_S, sanitized

HOUR = 3600
LIBRARY = next(iter(glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")), None)

pytestmark = [pytest.mark.skipif(sanitized(), reason="a sanitizer wants to be preloaded first"),
              pytest.mark.skipif(LIBRARY is None, reason="no libfaketime")]

TIMERFD_AS_IT_IS = """
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

int timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old)
{
    return (int)syscall(SYS_timerfd_settime, fd, flags, new, old);
}
"""


class Clock:
    """The wall clock of the servers of one test."""

    def __init__(self, folder):
        self.folder = folder
        self.file = folder / "offset"
        self.library = folder / "timerfd.so"
        (folder / "timerfd.c").write_text(TIMERFD_AS_IT_IS)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", self.library, folder / "timerfd.c"],
                       check=True)
        self.offset = 0
        self.step(0)

    def step(self, by, *clients):
        """Moves the clock; each client makes its server look."""
        self.offset += by
        new = self.folder / "offset.new"
        new.write_text(f"{self.offset:+d}\n")
        os.rename(new, self.file)  # whole at any moment
        for client in clients:
            client.say("list-tube-used")

    def now(self):
        return time.time() + self.offset

    def before(self):
        """Comes before a command that is to live by this clock."""
        return ["env", f"LD_PRELOAD={self.library}:{LIBRARY}",
                f"FAKETIME_TIMESTAMP_FILE={self.file}", "FAKETIME_NO_CACHE=1",
                "FAKETIME_DONT_FAKE_MONOTONIC=1"]

    def server(self, *flags):
        return tarry_with_port(self.folder / "store", *flags, before=self.before())


@pytest.fixture
def clock(tmp_path):
    return Clock(tmp_path)


def comes(client, clock, id, put_at, delay_s):
    """The job is handed out soon, and not before its time by the stepped clock."""
    found = client.reserve(60)
    now = clock.now()
    assert found is not None, "lost, or much too late"
    assert found[0] == id
    # The server and time.time() read one clock, but at two moments, and it may be set right between.
    assert now >= put_at + delay_s - 0.01, f"early by {put_at + delay_s - now} s"
    assert client.say(f"delete {id}") == "DELETED"


def state(client, id):
    return client.table(f"stats-job {id}")["state"]


# ---- in flight ----


@pytest.mark.parametrize("step, delay_s", [(1, 3), (HOUR, HOUR // 2)])
def test_a_step_ahead_makes_jobs_due(step, delay_s, clock):
    with clock.server() as server, Client(server.port()) as client:
        put_at = clock.now()
        id = client.put(b"soon", delay=delay_s)
        far = client.put(b"far", delay=2 * HOUR + delay_s)
        assert client.reserve() is None
        clock.step(step, client)
        comes(client, clock, id, put_at, delay_s)
        assert client.reserve() is None
        assert state(client, far) == "delayed"


@pytest.mark.parametrize("step", [-1, -HOUR])
def test_a_step_back_makes_jobs_late_not_lost(step, clock):
    delay_s = 2
    with clock.server() as server, Client(server.port()) as client:
        put_at = clock.now()
        id = client.put(b"later", delay=delay_s)
        clock.step(step, client)
        if step == -1:
            comes(client, clock, id, put_at, delay_s)
            return
        assert client.reserve(delay_s + 1) is None
        stats = client.table(f"stats-job {id}")
        assert stats["state"] == "delayed"
        assert HOUR - 60 < int(stats["time-left"]) <= HOUR + 1
        clock.step(HOUR, client)
        comes(client, clock, id, put_at, delay_s)


@pytest.mark.parametrize("step", [-1, -HOUR])
def test_a_ready_job_is_not_handed_out_before_its_time_after_all(step, clock):
    """It became ready, then the clock went back behind its due time."""
    with clock.server() as server, Client(server.port()) as client:
        put_at = clock.now()
        id = client.put(b"ready", delay=1)
        end = time.monotonic() + PATIENCE_S
        while state(client, id) != "ready":
            assert time.monotonic() < end
            time.sleep(0.02)
        clock.step(step, client)
        found = client.reserve()
        if found is not None:  # it was too slow a machine for a second
            assert step == -1 and found[0] == id and clock.now() >= put_at + 1 - 0.01
            return
        if step == -HOUR:
            clock.step(HOUR, client)
        comes(client, clock, id, put_at, 1)


@pytest.mark.parametrize("step", [1, -1, HOUR, -HOUR])
def test_what_is_put_after_a_step_goes_by_the_new_clock(step, clock):
    with clock.server() as server, Client(server.port()) as client:
        clock.step(step, client)
        put_at = clock.now()
        id = client.put(b"now", delay=0)
        delayed = client.put(b"in a second", delay=1)
        comes(client, clock, id, put_at, 0)
        comes(client, clock, delayed, put_at, 1)


def test_steps_to_and_fro_lose_nothing(clock):
    """Many jobs while the clock goes wild; each is handed out once, none early."""
    with clock.server() as server, Client(server.port()) as client:
        due = {}
        for i, step in enumerate([1, -1, -HOUR, 1, HOUR, -1, HOUR, -HOUR, 0]):
            clock.step(step, client)
            for delay in (0, 1, 2, 3):
                put_at = clock.now()
                due[client.put(b"%d %d" % (i, delay), delay=delay)] = put_at + delay
        clock.step(2 * HOUR, client)
        end = time.monotonic() + PATIENCE_S
        while due:
            assert time.monotonic() < end
            found = client.reserve(2)
            now = clock.now()
            if found is not None:
                assert now >= due.pop(found[0])
                assert client.say(f"delete {found[0]}") == "DELETED"
        assert client.table("stats")["total-jobs"] == "36"


# ---- leases, waits and pauses run on the boot clock ----


@pytest.mark.parametrize("step", [1, -1, HOUR, -HOUR])
def test_leases_waits_and_pauses_do_not_jump(step, clock):
    with clock.server() as server:
        port = server.port()
        with Client(port) as holder, Client(port) as waiter, Client(port) as other:
            other.say("use paused")
            other.put(b"paused")
            other.say("use default")
            id = holder.put(b"held", ttr=6)
            assert holder.reserve()[0] == id
            start = time.monotonic()
            waiter.send("watch empty\r\nignore default\r\nreserve-with-timeout 6\r\n")
            assert other.say("pause-tube paused 6") == "PAUSED"
            clock.step(step, other)
            time.sleep(1.5)  # longer than the doubt
            other.say("list-tube-used")
            stats = other.table(f"stats-job {id}")
            assert (stats["state"], stats["timeouts"]) == ("reserved", "0")
            assert 0 <= int(stats["time-left"]) <= 5
            left = int(other.table("stats-tube paused")["pause-time-left"])
            assert 0 <= left <= 5
            words = [waiter.reply().word for _ in range(3)]
            took = time.monotonic() - start
            assert words == ["WATCHING", "WATCHING", "TIMED_OUT"]
            assert 5.9 < took < PATIENCE_S
            end = time.monotonic() + PATIENCE_S
            while other.table(f"stats-job {id}")["timeouts"] != "1":  # by itself, now
                assert time.monotonic() < end, "the lease does not end"
                time.sleep(0.02)
            assert time.monotonic() - start > 5.9
            while int(other.table("stats-tube paused")["pause-time-left"]) > 0:  # it began a moment later
                assert time.monotonic() < end, "the pause does not end"
                time.sleep(0.02)
            other.say("watch paused")
            if step < 0:
                clock.step(-step, other)
            assert {found[1] for found in (other.reserve(60), other.reserve(60))} == \
                {b"paused", b"held"}


# ---- at the start ----


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("step", [1, HOUR])
def test_start_with_a_clock_ahead(step, how, clock):
    delay_s = 2 if step == 1 else HOUR // 2
    with clock.server() as server, Client(server.port()) as client:
        put_at = clock.now()
        id = client.put(b"x", delay=delay_s)
        far = client.put(b"far", delay=2 * HOUR)
        server.stop(how)
    clock.step(step)
    with clock.server() as server, Client(server.port()) as client:
        assert server.ready()[0] == 2
        comes(client, clock, id, put_at, delay_s)
        assert client.reserve() is None
        assert state(client, far) == "delayed"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("step", [-1, -HOUR])
def test_start_with_a_clock_behind(step, how, clock):
    with clock.server() as server, Client(server.port()) as client:
        put_at = clock.now()
        id = client.put(b"x", delay=1)
        held = client.put(b"held", pri=1)
        assert client.reserve()[0] == held
        server.stop(how)
    clock.step(step)
    with clock.server() as server, Client(server.port()) as client:
        assert server.ready()[0] == 2
        if step == -HOUR:
            assert client.reserve(1) is None
            assert client.table(f"stats-job {id}")["state"] == "delayed"
            clock.step(HOUR, client)
            # Both were far, and are due at one blow: they come in the order in which they are read.
            found = {client.reserve(60)[0], client.reserve(60)[0]}
            assert found == {held, id} and clock.now() >= put_at + 1
            return
        comes(client, clock, held, put_at, 0)
        comes(client, clock, id, put_at, 1)


def test_a_start_keeps_ids_apart_whatever_the_clock(clock):
    ids = []
    for step in (0, -HOUR, 2 * HOUR, -1):
        clock.step(step)
        with clock.server() as server, Client(server.port()) as client:
            ids.append(client.put(b"x"))
            server.stop(signal.SIGKILL)
    assert len(set(ids)) == 4 and sorted(ids) == ids


def test_the_library_does_what_this_test_believes(clock):
    """Shows that the wall clock moves and the boot clock does not, timers included."""
    program = pathlib.Path(clock.folder) / "clocks.c"
    program.write_text("""
        #include <stdint.h>
        #include <stdio.h>
        #include <sys/timerfd.h>
        #include <time.h>
        #include <unistd.h>

        int main(void)
        {
            for (int i = 0; i < 3; i++) {
                struct timespec wall, boot, later;
                uint64_t count;
                getchar();
                clock_gettime(CLOCK_REALTIME, &wall);
                clock_gettime(CLOCK_BOOTTIME, &boot);
                int fd = timerfd_create(CLOCK_BOOTTIME, 0);
                struct itimerspec spec = {{0, 0}, boot};
                spec.it_value.tv_sec += 1;
                timerfd_settime(fd, TFD_TIMER_ABSTIME, &spec, NULL);
                read(fd, &count, 8);
                clock_gettime(CLOCK_BOOTTIME, &later);
                printf("%ld %.1f\\n", (long)wall.tv_sec,
                       (double)(later.tv_sec - boot.tv_sec) +
                       (double)(later.tv_nsec - boot.tv_nsec) / 1e9);
                fflush(stdout);
            }
            return 0;
        }
    """)
    binary = clock.folder / "clocks"
    subprocess.run(["cc", "-D_GNU_SOURCE", "-w", "-o", binary, program], check=True)
    process = subprocess.Popen([*clock.before(), binary], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    try:
        for step in (0, HOUR, -2 * HOUR):
            clock.step(step)
            process.stdin.write("\n")
            process.stdin.flush()
            wall, waited = process.stdout.readline().split()
            assert abs(int(wall) - clock.now()) < 5
            assert 0.9 < float(waited) < 60  # an hour's step does not show; a busy machine may
    finally:
        process.kill()
        process.communicate()
