"""Deliberate bugs, to show that a run notices them: a copy of the server with other scripts in it.

The scripts stand in the binary as they are, with their SHA-1; both are replaced in a copy, so nothing has
to be compiled. What is said to the database stands in it, too. `tools/chaos --mutant NAME` must end with 1.
"""
import hashlib
import importlib.machinery
import importlib.util
import os
import pathlib

TOP = pathlib.Path(__file__).resolve().parents[2]
LUA = TOP / "src/cluster/lua"

SQL = "SQL"  # not a script, but a text in the program
BUG = "BUG"  # of the engine itself, by its name in src/cluster/mutant.h: build/tarry-bugs has all of them

# name: [(script, what it says, what it says instead)]; of several forms of a thing one has to be there
MUTANTS = {
    "any-lease": [("edit", "or j.lease ~= leases[i]", ""), ("edit", "and sub(h, 29, 36) == leases[i]", ""),
                  ("edit", "and sub(h, 29, 36) == lease", "")],
    "any-clock": [("take", "math.abs(now - tonumber(ARGV[5])) > 5000000", "false"),
                  ("take", "math.abs(now - tonumber(ARGV[5])) <= 5000000", "true"),
                  ("take", "now < tmax - 1000000", "false")],
    "push-forgets-its-answer": [("push", "OP .. put('>I2I2', 8, #told) .. vers .. told .. 'n' .. put('>I7I7', base, from)", "''"),
                                ("push", "if kept then", "if false then")],
    "release-adds-nothing": [("edit", "each(t.add, 'ZADD')", "")],
    "same-epoch": [("own", "epoch = epoch + 1", "")],  # who takes a slot does so under the epoch of before
    # With --sql. The transaction ends when the next one of its connection begins, or never.
    "reply-before-commit": [(SQL, "; COMMIT", "; DO 0")],
    # A row is written as it follows from what was read, whoever has changed it since: there is no lock.
    "skip-version": [(SQL, " ORDER BY `id` FOR UPDATE", " ORDER BY `id`"), (SQL, " SKIP LOCKED", "")],
    "remove-before-update": [(BUG, "INDEX_EARLY", "")],  # an entry of the index goes before its row has
    "no-bug": [(BUG, "", "")],  # that program as it should be: judged like it, and nothing is wrong
    "unconfirmed": [],  # the server waits for no replica, and the judge believes that it does
}


def make_lua():
    """tools/make-lua, as a module."""
    loader = importlib.machinery.SourceFileLoader("make_lua", str(TOP / "tools/make-lua"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("make_lua", loader))
    loader.exec_module(module)
    return module


def of_kind(names, kind):
    """What mutants of one of the kinds above say."""
    return [change[1] for name in names for change in MUTANTS[name] if change[0] == kind]


def make(names, binary, folder):
    """The path of a server with these bugs."""
    changes = [change for name in names for change in MUTANTS[name] if change[0] != BUG]
    if of_kind(names, BUG):
        binary = os.environ.get("BUGS_BIN", str(TOP / "build/tarry-bugs"))
    data = pathlib.Path(binary).read_bytes()
    scripts = make_lua().scripts(sorted(LUA.glob("*.lua")))
    for _, text, instead in [change for change in changes if change[0] == SQL]:
        was = f"\0{text}\0".encode()
        assert was in data, f"{binary} does not say {text!r} any more"
        data = data.replace(was, f"\0{instead.ljust(len(text))}\0".encode())
    for script in {script for script, _, _ in changes} - {SQL}:
        text = new = scripts[script]
        for where, old, instead in changes:
            if where == script:
                new = new.replace(old, instead)
        assert new != text, f"{script}.lua does not say any more what is to be changed"
        text, new = text.encode(), new.encode()
        assert len(new) <= len(text) and text in data, f"{binary} has another {script}.lua"
        new += b"\n" * (len(text) - len(new))
        for was, is_ in ((text, new), (hashlib.sha1(text).hexdigest().encode(), hashlib.sha1(new).hexdigest().encode())):
            assert data.count(was) == 1
            data = data.replace(was, is_)
    made = pathlib.Path(folder) / "tarry-mutant"
    made.write_bytes(data)
    made.chmod(0o755)
    return str(made)
