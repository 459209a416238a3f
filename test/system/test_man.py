"""The man pages: well-formed, and they name what the binary has."""
import pathlib
import re
import shutil
import subprocess

import pytest

from harness import tarry

TOP = pathlib.Path(__file__).parents[2]
PAGES = sorted((TOP / "man").iterdir())
COMMANDS = [path.name.removeprefix("tarry-").removesuffix(".1") for path in PAGES
            if path.name.startswith("tarry-")]


def plain(page):
    """The page as text, without its macros' escapes."""
    return (TOP / "man" / page).read_text().replace(r"\(aq", "'").replace(r"\&", "").replace(r"\-", "-")


def flags_of(page):
    """Flags that have an item of their own."""
    found = set()
    for line in re.findall(r"^\.It Fl (.*)$", plain(page), re.M):
        words = line.split(" Ar ")[0].split(" Cm ")[0].replace(",", " ").split()
        found |= {f"-{word}" for word in words}
    return found


def flags_of_help(text):
    """Flags at the start of a line of the help."""
    found = set()
    for line in re.findall(r"^  (-.*)$", text, re.M):
        first = re.split(r"\s{2,}", line)[0]
        found |= set(re.findall(r"(?:^|\s|,)(--?[a-zA-Z][a-z-]*)", first))
    return found


@pytest.mark.skipif(shutil.which("mandoc") is None, reason="no mandoc")
@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_page_is_well_formed(page):
    done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", str(page)], capture_output=True,
                          text=True)
    # Whose pages these are does not matter, and not all of ours are installed.
    said = [line for line in done.stdout.splitlines()
            if "referenced manual not found" not in line and "missing xref" not in line]
    assert said == []


@pytest.mark.skipif(shutil.which("man") is None, reason="no man-db")
@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_page_can_be_shown(page):
    done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", str(page)],
                          capture_output=True, text=True, env={"LC_ALL": "C.UTF-8", "MANWIDTH": "80",
                                                               "PATH": "/usr/bin:/bin"})
    assert (done.returncode, done.stderr) == (0, "")


def test_every_command_has_a_page():
    said = re.findall(r"^  ([a-z]+)  +[a-z]", tarry("help").stdout.split("\nexamples:")[0], re.M)
    assert sorted(set(said) - {"help"}) == sorted(COMMANDS)
    listed = re.findall(r"^\.It Cm (\w+)$", plain("tarry.1"), re.M)
    assert sorted(listed) == sorted(said)
    for command in COMMANDS:
        assert f".Xr tarry-{command} 1" in plain("tarry.1")


@pytest.mark.parametrize("command", COMMANDS)
def test_page_has_the_flags_of_the_help(command):
    said = flags_of_help(tarry("help", command).stdout)
    assert said, "no flag was found in the help"
    assert flags_of(f"tarry-{command}.1") == said


def test_made_pages_are_up_to_date():
    """That of the config, and those of commands, which are made from their help (TARRY_BIN)."""
    done = subprocess.run([TOP / "tools" / "make-man", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_pages_name_each_other():
    names = {path.name.rsplit(".", 1)[0] for path in PAGES}
    for page in PAGES:
        for name in re.findall(r"^\.Xr (\S+) \d", page.read_text(), re.M):
            assert name in names, f"{page.name}: {name}"
        assert page.read_text().count("\n.Sh NAME\n") == 1
        assert (TOP / "meson.build").read_text().count(f"'man/{page.name}'") == 1, "make install"
