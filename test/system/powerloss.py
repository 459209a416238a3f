"""A server whose disk forgets: every end of it is a power cut.

The server runs with libpowerloss.so preloaded (powerloss.c), which keeps a journal of all that was
written and not yet synced. When the process is gone, `cut` plays the disk: of each sector, size and
name that no sync has covered, dice decide whether the old state is back, the new one stayed, or a
sector is torn. What is left is what a real disk could have left, and the next server starts there.
"""
import os
import pathlib
import random
import shutil
import struct
from collections import namedtuple

from harness import Server

SECTOR = 512
HEAD = struct.Struct("<8Q")
WRITE, SIZE, SYNC, CREATE, UNLINK, DIRSYNC = range(1, 7)

Record = namedtuple("Record", "at kind ino off data aux")


def read_journal(path):
    """All whole records of the journal."""
    bytes_ = path.read_bytes() if path.exists() else b""
    at, records = 0, []
    while at + HEAD.size <= len(bytes_):
        kind, ino, off, len_, aux, *_ = HEAD.unpack_from(bytes_, at)
        data = bytes_[at + HEAD.size:at + HEAD.size + len_]
        if len(data) < len_:
            break  # it was killed while it wrote this one, so what it tells of was not begun
        records.append(Record(at, kind, ino, off, data, aux))
        at += HEAD.size + len_
    return records


def pending(records):
    """What no sync has covered: ({ino: [WRITE and SIZE]}, [CREATE and UNLINK])."""
    synced, names_synced = {}, 0
    for record in records:
        if record.kind == SYNC:
            synced[record.ino] = max(record.off, synced.get(record.ino, 0))
        elif record.kind == DIRSYNC:
            names_synced = max(names_synced, record.off)
    files, names = {}, []
    for record in records:
        if record.kind in (WRITE, SIZE) and record.at >= synced.get(record.ino, 0):
            files.setdefault(record.ino, []).append(record)
        elif record.kind in (CREATE, UNLINK) and record.at >= names_synced:
            names.append(record)
    return files, names


def old_sectors(records):
    """{offset: what the sector was before the first of these writes}; parts of sectors are whole
    after the first write, since writes of a store come in blocks."""
    old = {}
    for record in records:
        if record.kind == WRITE:
            for at in range(0, len(record.data), SECTOR):
                old.setdefault(record.off + at, record.data[at:at + SECTOR])
    return old


class Cut:
    """One power cut: how much of what was not synced is lost."""

    def __init__(self, data, journal, dice):
        self.data = pathlib.Path(data)
        self.journal = pathlib.Path(journal)
        self.kept = pathlib.Path(f"{journal}.d")
        self.dice = dice
        self.keep = dice.choice([0, 0.3, 0.7, 1])  # chance of a sector
        self.tears = dice.random() < 0.3
        self.lost = self.torn = 0

    def cut_sector(self, file, at, old):
        file.seek(at)
        new = file.read(len(old))
        if new == old:
            return
        if self.tears and self.dice.random() < 0.1:
            cut = self.dice.randrange(1, len(old))
            old = new[:cut] + old[cut:]
            self.torn += 1
        elif self.dice.random() < self.keep:
            return
        file.seek(at)
        file.write(old)
        self.lost += 1

    def cut_file(self, path, records):
        sizes = [record.off for record in records if record.kind == SIZE]
        with open(path, "r+b") as file:
            for at, old in old_sectors(records).items():
                self.cut_sector(file, at, old)
            size = os.fstat(file.fileno()).st_size
            if sizes and sizes[0] < size:  # a part of what it grew by, or nothing, or all
                self.cut_growth(file, sizes[0], size)

    def cut_growth(self, file, old, new):
        grown = self.dice.choice([0, new - old, self.dice.randrange(new - old + 1)])
        if grown < new - old:
            file.truncate(old + grown)
            self.lost += 1
        for at in range(old, old + grown, SECTOR):  # blocks that were never written are zeros
            if self.dice.random() >= self.keep and grown <= 1 << 20:
                self.cut_sector(file, at, bytes(min(SECTOR, old + grown - at)))

    def cut_names(self, records):
        """The last ones never happened, or by chance any of them."""
        in_order = self.dice.random() < 0.7
        first = self.dice.randrange(len(records) + 1)
        for number, record in reversed(list(enumerate(records))):
            if number < first if in_order else self.dice.random() < 0.5:
                continue
            path = self.data / record.data.decode()
            if record.kind == CREATE:
                path.unlink(missing_ok=True)
            elif not path.exists():
                os.link(self.kept / str(record.aux), path)
            self.lost += 1

    def run(self):
        files, names = pending(read_journal(self.journal))
        paths = {entry.stat().st_ino: entry.path for folder in (self.kept, self.data)
                 if folder.exists() for entry in os.scandir(folder)}
        for ino, records in files.items():
            if ino in paths:
                self.cut_file(paths[ino], records)
        self.cut_names(names)
        self.journal.unlink(missing_ok=True)
        shutil.rmtree(self.kept, ignore_errors=True)


class PowerServer(Server):
    """A server that is not only killed in the end, but loses what was not synced."""

    cuts = lost = torn = 0

    def __init__(self, data, seed, *flags, lie=False):
        self.data = pathlib.Path(data)
        self.data.mkdir(exist_ok=True)
        self.journal = pathlib.Path(f"{data}.journal")
        self.seed = seed
        more = {"POWERLOSS_DIR": str(data), "POWERLOSS_JOURNAL": str(self.journal),
                "POWERLOSS_SLOW_US": "5000",
                "LD_PRELOAD": os.environ["POWERLOSS_SO"], **({"POWERLOSS_LIE": "1"} if lie else {})}
        before = ["env", *(f"{name}={value}" for name, value in more.items())]
        super().__init__(data, *flags, before=before)

    def __exit__(self, *_):
        super().__exit__(*_)
        cut = Cut(self.data, self.journal, random.Random(self.seed))
        cut.run()
        PowerServer.cuts += 1
        PowerServer.lost += cut.lost
        PowerServer.torn += cut.torn
