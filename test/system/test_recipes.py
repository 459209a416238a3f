"""doc/recipes: the programs are run as their pages show, and print what these say."""
import pytest

import pages
from pages import RUN, TOP, blocks_of
from test_docs import PLAYED, RECIPES

PAGES = [(page, kind) for page, kind in PLAYED if page.startswith(RECIPES)]


@pytest.mark.parametrize("page, kind", PAGES)
def test_recipe(page, kind, tmp_path):
    assert pages.play(TOP / page, kind, tmp_path) > 0


def test_programs_are_run():
    for page in (TOP / RECIPES).glob("*/README.md"):
        run = "".join(block.text for block in blocks_of(page) if block.lang in RUN and not block.reason)
        for program in page.parent.iterdir():
            if program != page:
                name = program.stem if program.name.startswith("test_") else program.name
                assert name in run, f"{program.relative_to(TOP)}: its page does not run it"
                assert f"]({program.name})" in page.read_text(), f"{program.relative_to(TOP)}: no link"
