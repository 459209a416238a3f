"""Deliberate bugs, to show that a run notices them: a copy of the server with other scripts in it.

The scripts stand in the binary as they are, with their SHA-1; both are replaced in a copy, so nothing has
to be compiled. `tools/chaos --mutant NAME` must end with 1.
"""
import hashlib
import importlib.machinery
import importlib.util
import pathlib

TOP = pathlib.Path(__file__).resolve().parents[2]
LUA = TOP / "src/cluster/lua"

# name: [(script, what it says, what it says instead)]; of several forms of a thing one has to be there
MUTANTS = {
    "any-lease": [("edit", "or j.lease ~= leases[i]", ""), ("edit", "and sub(h, 29, 36) == leases[i]", ""),
                  ("edit", "and sub(h, 29, 36) == lease", "")],
    "any-clock": [("take", "math.abs(now - tonumber(ARGV[5])) > 5000000", "false"),
                  ("take", "math.abs(now - tonumber(ARGV[5])) <= 5000000", "true"),
                  ("take", "now < tmax - 1000000", "false")],
    "push-forgets-its-answer": [("push", "OP .. put('>I2I2', 8, 0) .. vers .. 'n' .. put('>I7I7', base, from)", "''"),
                                ("push", "if kept then", "if false then")],
    "release-adds-nothing": [("edit", "each(t.add, 'ZADD')", "")],
    "unconfirmed": [],  # the server waits for no replica, and the judge believes that it does
}


def make_lua():
    """tools/make-lua, as a module."""
    loader = importlib.machinery.SourceFileLoader("make_lua", str(TOP / "tools/make-lua"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("make_lua", loader))
    loader.exec_module(module)
    return module


def make(names, binary, folder):
    """The path of a server with these bugs."""
    changes = [change for name in names for change in MUTANTS[name]]
    data = pathlib.Path(binary).read_bytes()
    scripts = make_lua().scripts(sorted(LUA.glob("*.lua")))
    for script in {script for script, _, _ in changes}:
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
