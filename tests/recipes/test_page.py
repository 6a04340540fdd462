"""A recipe is read in one file over one page of what it is made of (raftmeta/recipes/recipe.py).

recipes/store only says what a store is, for the types.
"""

from __future__ import annotations

import ast
from pathlib import Path

import raftmeta.recipes
from raftmeta.recipes import recipe

FOLDER = Path(raftmeta.recipes.__file__).parent
RECIPES = {
    "barrier": set(),
    "candidacy": {"standing"},
    "claims": set(),
    "counter": set(),
    "double_barrier": set(),
    "election": {"candidacy"},
    "group": set(),
    "lock": set(),
    "queue": {"claims"},
    "registry": set(),
    "storage": set(),
}
RECIPE_LINES_MAX = 150


def imported(source: str) -> set[str]:
    """The modules of raftmeta.recipes that a source imports."""
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    prefix = "raftmeta.recipes."
    return {node.module.removeprefix(prefix) for node in nodes if node.module and node.module.startswith(prefix)}


def test_a_recipe_needs_one_page_and_at_most_its_own_half() -> None:
    for name, halves in RECIPES.items():
        source = (FOLDER / f"{name}.py").read_text()
        assert imported(source) <= {"recipe", "store", *halves}, name
        assert source.count("\n") <= RECIPE_LINES_MAX, name


def test_the_page_offers_what_recipes_use_and_nothing_else() -> None:
    used: set[str] = set()
    for name in RECIPES:
        for node in ast.walk(ast.parse((FOLDER / f"{name}.py").read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "raftmeta.recipes.recipe":
                used |= {alias.name for alias in node.names}
    assert set(recipe.__all__) == used
