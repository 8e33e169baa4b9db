"""Text that every Python has: the docstrings of its standard library, read from the sources.

A docstring's first paragraph says what a thing does, the second one tells more. Whether the first finds the second
among all second paragraphs is a test of search that needs no labels made by people.
"""

from __future__ import annotations

import ast
import re
import sysconfig
from pathlib import Path
from typing import NamedTuple

_LEFT_OUT = {"test", "tests", "idle_test", "idlelib", "lib2to3", "turtledemo", "site-packages", "dist-packages"}
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class Docstrings(NamedTuple):
    """What the docstrings hold.

    Attributes:
        sentences: Distinct sentences of four words and more.
        pairs: First and second paragraphs of five words and more; each occurs once.
    """

    sentences: list[str]
    pairs: list[tuple[str, str]]


def read_docstrings() -> Docstrings:
    """Read the docstrings of the Python that runs this."""
    sentences: dict[str, None] = {}
    pairs: list[tuple[str, str]] = []
    seen: set[str] = set()
    for docstring in _all_docstrings():
        paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n", docstring)]
        for paragraph in paragraphs:
            found = (sentence.strip() for sentence in re.split(r"(?<=[.!?])\s+", paragraph))
            sentences.update(dict.fromkeys(sentence for sentence in found if len(sentence.split()) >= 4))
        first, second = (*paragraphs, "", "")[:2]
        prose = len(first.split()) >= 5 and len(second.split()) >= 5 and not second.startswith(">>>")
        if prose and first not in seen and second not in seen:
            seen.update((first, second))
            pairs.append((first, second))
    return Docstrings(list(sentences), pairs)


def _all_docstrings() -> list[str]:
    root = Path(sysconfig.get_path("stdlib"))
    docstrings: dict[str, None] = {}
    for file in sorted(root.rglob("*.py")):
        if _LEFT_OUT & set(file.relative_to(root).parts):
            continue
        try:
            tree = ast.parse(file.read_bytes())
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, _DOCUMENTED) and (docstring := ast.get_docstring(node)):
                docstrings[docstring] = None
    return list(docstrings)
