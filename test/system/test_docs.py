"""README.md and doc/: every command on every page is run, and prints what the page shows.

Which block runs how is told in pages.py. Here is also what holds for all pages: no command stands
outside of such a block, links lead somewhere, and what is named in the text is there.
"""
import functools
import hmac
import re
import subprocess
import time

import pytest

import pages
from harness import TARRY, tarry
from pages import KINDS, NOT_RUN, RUN, TOP, blocks_of
from web import Web

# Pages that are played elsewhere; README.zh-CN.md has the same blocks as README.md (a test below).
ELSEWHERE = {"doc/http.md": "test_http_doc.py", "README.zh-CN.md": None}
RECIPES = "doc/recipes/"  # test_recipes.py
# Blocks that are no commands. The first are looked at by tests below.
DATA = {"ini", "json", "python", "c"} | {"yaml", "nginx", "text", ""}
NOT_RUN_MOST = 7  # blocks that no test can run; each says why, and names the test that does the same

PLAYED = sorted({(page.relative_to(TOP).as_posix(), block.kind) for page in pages.pages()
                 for block in blocks_of(page) if block.lang in RUN and not block.reason
                 and page.relative_to(TOP).as_posix() not in ELSEWHERE})
HERE = [(page, kind) for page, kind in PLAYED if not page.startswith(RECIPES)]


@pytest.mark.parametrize("page, kind", HERE)
def test_examples(page, kind, tmp_path):
    assert pages.play(TOP / page, kind, tmp_path) > 0


def test_a_wrong_output_is_noticed(tmp_path):
    page = tmp_path / "page.md"
    told = "```console\n$ curl localhost:11301/healthz\n{\"status\":\"ok\",\"ok\":%s}\n```\n"
    page.write_text(told % "true")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    pages.TOP, top = tmp_path, pages.TOP
    try:
        assert pages.play(page, "", tmp_path / "a") == 1
        page.write_text(told % "false")
        with pytest.raises(AssertionError, match="is not"):
            pages.play(page, "", tmp_path / "b")
    finally:
        pages.TOP = top


@pytest.mark.parametrize("wanted, said, same", [
    ("1 job", "1 job", True), ("1 job", "2 jobs", False), ("1 …\nend", "1 job\nor two\nend", True),
    ('{"due":"2026-11-15T08:30:00.123Z"}', '{"due":"2027-01-01T00:00:00.000Z"}', True),
    ('{"due":"2026-11-15T08:30:00.123Z"}', '{"due":"soon"}', False),
    ('"lease":"00ab","late_ms":0', '"lease":"ff","late_ms":12', True),
    ('"attempts":1', '"attempts":2', False)])
def test_what_may_vary(wanted, said, same):
    assert pages.matches(wanted, said) == same


def test_every_block_is_run_or_says_why_not():
    not_run = []
    for page in pages.pages():
        for block in blocks_of(page):
            where = f"{block}: ```{block.lang}"
            assert block.lang in RUN | DATA, f"{where}: pages.py knows no such blocks"
            if block.reason is not None:
                name = re.search(r"test_\w+\.py|\bmake test\b", block.reason)
                assert name, f"{where}: why, and which test does it instead?"
                assert name[0] == "make test" or (TOP / "test" / "system" / name[0]).exists(), where
                not_run.append(f"{block}: {block.reason}")
            elif block.lang in RUN:
                assert block.kind in KINDS, f"{where} {block.kind}: no such kind"
                assert block.steps, where
            else:
                assert not re.search(r"^\$ ", block.text, re.M), f"{where}: commands go into console"
        told = re.findall(rf"^ *<!-- {NOT_RUN}", page.read_text(), re.M)
        assert len(told) == sum(block.reason is not None for block in blocks_of(page)), (
            f"{page}: such a line stands right before its block")
    assert len(not_run) <= NOT_RUN_MOST, "\n".join(not_run)


@functools.cache
def data(lang, *pages_of):
    return [(block, block.text) for page in pages_of for block in blocks_of(TOP / page) if block.lang == lang]


def test_configs_are_taken(tmp_path):
    """Each ini block starts a server; digests in it stand for real ones."""
    for number, (block, text) in enumerate(data("ini", "doc/config.md", "doc/security.md")):
        text = re.sub(r"sha256:[0-9a-f]+…", lambda _: f"sha256:{'ab' * 32}", text)
        text = re.sub("ab" * 32, lambda _, n=iter(range(99)): f"{next(n):064x}", text)
        text = re.sub(r"^path = .*$", f"path = {tmp_path}/store-{number}", text, flags=re.M)
        (tmp_path / "tarry.conf").write_text(text)
        (tmp_path / f"shell-{number}").mkdir()
        with pages.Shell(tmp_path / f"shell-{number}") as shell:
            said = shell.serve(["serve", "--config", str(tmp_path / "tarry.conf"), *shell.ports([])])
            assert "ready in" in said, block


def test_policies_are_taken(tmp_path):
    """Each json block of doc/outlets.md that is a policy; 501 where this build lacks the library."""
    blocks = [(block, text) for block, text in data("json", "doc/outlets.md") if '"deliver"' in text]
    assert len(blocks) >= 3
    with pages.Shell(tmp_path) as shell:
        shell.default_server()
        web = Web(shell.http)
        for block, text in blocks:
            answer = web.ask("PUT", "/v1/topics/orders", text)
            assert answer.status in (200, 201, 501), f"{block}: {answer}"
        web.close()


def test_the_check_of_signatures():
    """The function of doc/outlets.md knows a right signature from a wrong one."""
    (_, text), = data("python", "doc/outlets.md")
    names = {"hmac": hmac, "time": time}
    exec(text, names)  # noqa: it is our own page
    now = str(int(time.time()))
    right = hmac.new(b"k3y", f"{now}.body".encode(), "sha256").hexdigest()
    assert names["is_from_tarry"](f"t={now},v1={right}", b"body", [b"new", b"k3y"])
    assert not names["is_from_tarry"](f"t={now},v1={right}", b"bodi", [b"k3y"])
    assert not names["is_from_tarry"](f"t={int(now) - 400},v1={right}", b"body", [b"k3y"])


def test_the_picture_is_what_the_demo_prints(tmp_path):
    subprocess.run([TOP / "tools" / "make-demo", "--tarry", TARRY, "--out", tmp_path / "demo.svg"], check=True)
    assert (tmp_path / "demo.svg").read_text() == (TOP / "doc" / "demo.svg").read_text(), "run tools/make-demo"


NUMBER = r"\d+(?:[,.]\d+)*"


def figures(page):
    """The numbers of its table of measurements: rows of four cells, the first of which is words."""
    rows = [line.strip("| ").split("|") for line in page.read_text().splitlines() if line.count("|") == 5]
    return [[re.findall(NUMBER, cell) for cell in row[1:]] for row in rows if re.search(NUMBER, "".join(row[1:]))]


def measured(section, row, column):
    """A cell of doc/performance.md."""
    text = (TOP / "doc" / "performance.md").read_text()
    part = re.search(rf"^### {re.escape(section)}\n(.*?)(?=^### |\Z)", text, re.S | re.M)
    assert part, f"doc/performance.md has no section {section}"
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in part[1].splitlines()
             if line.startswith("|")]
    cells = next((cells for cells in table if cells[0] == row), None)
    assert cells, f"doc/performance.md, {section}: no row {row}"
    return float(cells[table[0].index(column)].replace(",", ""))


DURABLE = ["tarry always", "beanstalkd -f0", "redis always"]
BURST = ["tarry never", "beanstalkd", "redis"]
SCALE = ["tarry never", "beanstalkd -F", "redis everysec"]
# Where each row of that table comes from: section, rows of the three servers, columns, unit.
SOURCES = [
    ("Durable put, 64×16", DURABLE, ["ops/s"], 1),
    ("Durable put, 16×1", DURABLE, ["ops/s"], 1),
    ("All due within one second, 16×16 consumers", BURST, ["ops/s"], 1),
    ("10 M: lateness, 1,000 jobs/s at random moments", SCALE, ["late p50 ms", "late p99 ms"], 1),
    ("10 M: far jobs in, 64×16; due in 1 to 30 days, 16 tubes", SCALE, ["RAM B/job idle"], 1),
    ("10 M: far jobs in, 64×16; due in 1 to 30 days, 16 tubes", SCALE, ["disk B/job"], 1),
    ("10 M: start after kill -9", SCALE, ["ready ms"], 1000),
    ("10 M: questions", [f"{name}, peek by id" for name in SCALE], ["ops/s"], 1)]


def check_figure(text, section, row, column, unit=1):
    """It may be rounded: by a fiftieth, or by half of what its last digit stands for."""
    real = measured(section, row, column) / unit
    half = 0.5 / 10 ** len(text.partition(".")[2])
    assert abs(float(text.replace(",", "")) - real) <= max(real / 50, half), (
        f"README.md says {text}, doc/performance.md {real}: {section}, {row}, {column}")


def test_figures_are_those_that_were_measured():
    shown = figures(TOP / "README.md")
    assert len(shown) == len(SOURCES)
    for cells, (section, rows, columns, unit) in zip(shown, SOURCES):
        for texts, row in zip(cells, rows, strict=True):
            for text, column in zip(texts, columns, strict=True):
                check_figure(text, section, row, column, unit)


def links(page):
    return {link for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()) if not link.startswith("README.")}


def test_both_readmes_show_the_same():
    one, two = TOP / "README.md", TOP / "README.zh-CN.md"
    shown = [[block.text for block in blocks_of(page) if block.lang == "console"] for page in (one, two)]
    assert shown[0] == shown[1]
    assert figures(one) == figures(two) and len(figures(one)) > 5
    assert links(one) == links(two)


COMMAND = re.compile(r"\$ |(sudo|make|tarry|build/tarry|curl|docker|systemctl|apt|redis-cli|cc|openssl|ln) [-\w'/{]")


def test_no_command_stands_outside_of_a_block():
    for page in pages.pages():
        text = re.sub(r"^ *```.*?^ *```", lambda m: "\n" * m[0].count("\n"), page.read_text(), flags=re.S | re.M)
        for number, line in enumerate(text.split("\n"), 1):
            if line.startswith("    ") and COMMAND.match(line.strip()):
                raise AssertionError(f"{page.relative_to(TOP)}:{number}: {line.strip()}: fence it")


def anchors(page):
    """The names that headings of a page have, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.S | re.M)
    heads = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_links_lead_somewhere():
    for page in pages.pages():
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.S | re.M)
        for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text)):
            if re.match(r"\w+://", link):
                continue
            name, _, anchor = link.partition("#")
            target = (page.parent / name).resolve() if name else page
            where = f"{page.relative_to(TOP)}: {link}"
            assert target.exists(), where
            assert not anchor or anchor in anchors(target), where


@functools.cache
def flags_of(command):
    """The flags that `tarry help COMMAND` names."""
    said = tarry("help", *([command] if command else []))
    assert said.returncode == 0, command
    return set(re.findall(r"--[a-z][a-z-]*", said.stdout)) | {"--help", "--json"}


def spans():
    """(page, text) of all inline code."""
    for page in pages.pages():
        if page.name in ("CHANGELOG.md", "progress.md"):
            continue  # tell of what was
        text = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.S | re.M)
        for span in re.findall(r"`([^`\n]+)`", text):
            yield page.relative_to(TOP).as_posix(), span


def test_commands_in_the_text_exist():
    targets = set(re.findall(r"^([a-z0-9-]+):.*##", (TOP / "Makefile").read_text(), re.M))
    commands = set(re.findall(r"^  ([a-z]+) ", tarry("help").stdout, re.M)) | {"help"}
    for page, span in spans():
        if match := re.match(r"make ([a-z0-9-]+)", span):
            assert match[1] in targets, f"{page}: {span}"
        if match := re.match(r"tarry ([a-z]+)\b(.*)", span):
            assert match[1] in commands, f"{page}: {span}"
            for flag in re.findall(r" (--[a-z][a-z-]*)", match[2].split(" -- ")[0]):
                assert flag in flags_of(match[1]), f"{page}: {span}: {flag}"


def test_files_in_the_text_exist():
    for page, span in spans():
        if re.fullmatch(r"(?:src|sim|test|tools|doc|web|contrib|packaging|bench|examples|fuzz|man)/[\w./-]+", span):
            if "-NAME" not in span and not list(TOP.glob(span.rstrip("/"))) and not list(TOP.glob(span + ".*")):
                raise AssertionError(f"{page}: there is no {span}")


def test_names_of_the_code_in_the_text_exist():
    """Functions, structs and files that pages about the code name."""
    words, files = set(), set()
    for top in ("src", "sim", "include", "test", "bench", "fuzz", "tools", "web", "contrib", "man", "doc", "examples"):
        for path in (TOP / top).rglob("*"):
            files.add(path.name)
            if path.suffix in (".c", ".h", ".lua"):
                words |= set(re.findall(r"\w+", path.read_text()))
    for page, span in spans():
        for name in re.findall(r"\btr_\w+", span):
            assert name in words, f"{page}: there is no {name}"
        file = re.fullmatch(r"(?:\w+/)*([\w-]+\.(?:c|h|py|lua|js|md))", span)
        assert not file or file[1] in files, f"{page}: there is no {span}"


def test_reasons_of_readyz_are_explained():
    """Each code of src has its place in the table of doc/monitoring.md."""
    codes = set()
    for path in (TOP / "src").rglob("*.c"):
        codes |= set(re.findall(r'"((?:redis|sql|coordinator)_[a-z_]+)"|tr_reason\)\{\s*"(\w+)"', path.read_text()))
    codes = {one or two for one, two in codes}
    assert {"redis_away", "sql_full", "draining"} <= codes
    told = set(re.findall(r"`(\w+)`", (TOP / "doc" / "monitoring.md").read_text().split("\n## Health\n")[1]))
    assert codes <= told


def test_symptoms_are_words_of_the_program():
    """Messages and codes in the first column of doc/troubleshooting.md are in the code."""
    code = "".join(re.sub(r'"\s*(?:PRI\w+\s*)?"', "", path.read_text()) for path in (TOP / "src").rglob("*.[ch]"))
    code += "".join(path.read_text() for path in (TOP / "src" / "proto").rglob("*.h"))
    for line in (TOP / "doc" / "troubleshooting.md").read_text().splitlines():
        for span in re.findall(r"`([^`]+)`", line.split("|")[1] if line.startswith("| ") else ""):
            for word in re.split(r"[\d.]+ ms|: push of http|…", span):
                assert word.strip() in code or word.startswith(("--", "/")), f"{span}: tarry does not say {word.strip()}"
