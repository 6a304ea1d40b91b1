"""The house stays plain: no file and no function grows past what a reader takes in."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
LONGEST_FILE = 400
LONGEST_FUNCTION = 60
USUAL_FUNCTION = 40


def sources() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    made = ("migrations/", "_pb2.py")
    return [ROOT / name for name in listed.split() if not any(mark in name for mark in made)]


def functions(path: Path) -> list[tuple[str, int]]:
    tree = ast.parse(path.read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        (f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", (node.end_lineno or node.lineno) - node.lineno + 1)
        for node in ast.walk(tree)
        if isinstance(node, kinds)
    ]


def test_no_file_of_the_product_is_longer_than_the_reader_keeps_in_mind() -> None:
    ours = [path for path in sources() if "tests" not in path.relative_to(ROOT).parts]
    assert [str(path) for path in ours if path.read_text().count("\n") > LONGEST_FILE] == []


def test_no_function_is_longer_than_a_screen() -> None:
    assert [name for path in sources() for name, size in functions(path) if size > LONGEST_FUNCTION] == []


def test_nearly_all_functions_are_short() -> None:
    sizes = [size for path in sources() for _, size in functions(path)]
    assert sum(size <= USUAL_FUNCTION for size in sizes) / len(sizes) > 0.98


def test_modules_are_nouns_of_the_field_and_not_drawers() -> None:
    drawers = {"utils", "util", "helpers", "helper", "manager", "managers", "common", "misc"}
    assert [str(path) for path in sources() if path.stem in drawers] == []
