"""`lsp-calib summarize`: the function that is meant, and the examples from its repository."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from openai_server import serving

from lsp_calib.cli import main
from lsp_calib.commands.suggestions import summarize_at
from lsp_calib.settings import Trusted

SHOP = '''def total_price(items):
    """Sum the prices of some items."""
    return sum(item.price for item in items if item.fresh)
'''
BILL = '''class Bill:
    def price_of(self, items):
        """Old words."""
        def inner(item):
            return item.price * self.tax
        return sum(map(inner, items))
'''


@pytest.fixture
def bill(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    (root / ".git").mkdir(parents=True)
    (root / "shop.py").write_text(SHOP)
    (root / "app").mkdir()
    (root / "app" / "bill.py").write_text(BILL)
    return root / "app" / "bill.py"


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.mark.usefixtures("home")
async def test_a_remote_server_gets_the_text_of_the_file_alone(bill: Path) -> None:
    """The innermost function without its documentation, after the shipped examples."""
    async with serving() as server:
        given = Trusted(remote_url=server.url)
        for line, code in ((2, "def price_of"), (4, "def inner")):
            suggestion = await asyncio.to_thread(summarize_at, bill, line, given, print)
            assert suggestion.text == "x"
            prompt = str(server.completions[-1].body["prompt"])
            assert prompt.rindex("```python") < prompt.index(code)
            assert "Read a JSON file" in prompt
            assert "Old words" not in prompt
            assert "some items" not in prompt


@pytest.mark.usefixtures("home")
async def test_augment_tells_repository_path_and_names(bill: Path) -> None:
    async with serving() as server:
        arguments = ("summarize", f"{bill}:2", "--remote", server.url, "--json")
        await asyncio.to_thread(invoke, *arguments)
        await asyncio.to_thread(invoke, *arguments, "--augment")
        plain, augmented = (str(one.body["prompt"]) for one in server.completions)
    assert "Repository" not in plain
    assert "Repository: repository\nFile: app/bill.py\nParameters: items\n" in augmented


@pytest.mark.model
@pytest.mark.usefixtures("home_with_model")
def test_examples_of_the_repository_are_shown(bill: Path) -> None:
    """A prompt with one more example is longer."""
    with_example = invoke("summarize", f"{bill}:2", "--json", "--threads", "1")
    assert with_example.exit_code == 0, with_example.output
    (bill.parents[1] / "shop.py").unlink()
    without = invoke("summarize", f"{bill}:2", "--json", "--threads", "1")
    tokens = [json.loads(one.stdout)["timing"]["promptTokens"] for one in (with_example, without)]
    assert tokens[0] != tokens[1]
