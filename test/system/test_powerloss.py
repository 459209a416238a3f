"""Power cuts under load: the server is killed, and its disk forgets what was not synced. Nothing
acknowledged is lost, nothing deleted comes back. `make powerloss` does it 200 times."""
import itertools
import os

import pytest

from harness import sanitized
from load import Load, Wrong
from powerloss import CREATE, SIZE, SYNC, WRITE, PowerServer, Record, old_sectors, pending

SEED = os.environ.get("SEED", "1")
CUTS = int(os.environ.get("CUTS", "12"))

pytestmark = pytest.mark.skipif(sanitized(), reason="a sanitizer wants to be loaded first")


def load(store, *flags, lie=False):
    numbers = itertools.count()
    return Load(lambda: PowerServer(store, f"{SEED}/{next(numbers)}", *flags, lie=lie), SEED)


def test_power_cuts_under_load(tmp_path):
    PowerServer.cuts = PowerServer.lost = PowerServer.torn = 0
    some = load(tmp_path / "store", "--sync", "always")
    while PowerServer.cuts < CUTS or (some.answers <= 50 * CUTS and PowerServer.cuts < 4 * CUTS):  # a slow machine
        some.run_round()
    some.finish()
    print(some.summary(), f"cuts={PowerServer.cuts} sectors lost={PowerServer.lost} "
          f"torn={PowerServer.torn}")
    assert some.answers > 50 * CUTS
    assert PowerServer.lost > 0  # else nothing was tried


# ---- the test can fail ----


def test_a_disk_that_lies_is_noticed(tmp_path):
    """Syncs return, and do nothing: jobs are lost, or the store says that it is damaged."""
    some = load(tmp_path / "store", "--sync", "always", lie=True)
    with pytest.raises(AssertionError, match="lost|back|damaged|unknown"):
        for _ in range(100):
            some.run_round()


def test_a_server_that_does_not_sync_is_noticed(tmp_path):
    some = load(tmp_path / "store", "--sync", "never")
    with pytest.raises(Wrong, match="lost|back"):
        for _ in range(100):
            some.run_round()


def test_only_what_was_begun_before_a_sync_is_covered():
    first = Record(0, WRITE, 7, 0, b"a" * 1024, 0)
    second = Record(100, WRITE, 7, 512, b"b" * 512, 0)
    other = Record(200, WRITE, 8, 0, b"c" * 512, 0)
    name = Record(300, CREATE, 0, 0, b"w.000", 0)
    synced = Record(400, SYNC, 7, 100, b"", 0)
    files, names = pending([first, second, other, name, synced])
    assert files == {7: [second], 8: [other]} and names == [name]


def test_the_oldest_bytes_since_the_sync_come_back():
    records = [Record(0, WRITE, 7, 0, b"a" * 1024, 0), Record(1, WRITE, 7, 512, b"b" * 1024, 0),
               Record(2, SIZE, 7, 1024, b"", 0)]
    assert old_sectors(records) == {0: b"a" * 512, 512: b"a" * 512, 1024: b"b" * 512}
