"""Code asks a field of a thing: it compares neither a sentence nor the name of a
decision.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from rescore.parts import DECISIONS
from tests.sources import PACKAGE, nodes, tree_of

SOURCES = PACKAGE
WORDS_OF_A_SENTENCE = 3


def texts_of(node: ast.expr, known: dict[str, str]) -> Iterator[str]:
    """Yield the constant texts that an operand is, or may be."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        for element in node.elts:
            yield from texts_of(element, known)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.Name) and node.id in known:
        yield known[node.id]


def constants(module: ast.Module) -> dict[str, str]:
    """The texts that have a name in a module."""
    known = {}
    for node in module.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            text = node.value.value
            for target in node.targets:
                if isinstance(target, ast.Name) and isinstance(text, str):
                    known[target.id] = text
    return known


def compared(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each comparison with a constant text."""
    tree = tree_of(path)
    known = constants(tree)
    for node in nodes(path):
        if not isinstance(node, ast.Compare):
            continue
        if isinstance(node.ops[0], ast.In | ast.NotIn) and isinstance(
            node.left, ast.Constant
        ):
            continue  # it searches a text
        for operand in (node.left, *node.comparators):
            for text in texts_of(operand, known):
                yield node.lineno, text


@cache
def all_compared() -> tuple[tuple[Path, int, str], ...]:
    """Each comparison of the package: not at import, which every worker does."""
    return tuple((path, *where) for path in SOURCES for where in compared(path))


def test_no_sentence_is_compared() -> None:
    sentences = []
    for path, line, text in all_compared():
        if len(text.split()) >= WORDS_OF_A_SENTENCE:
            sentences.append(f"{path.name}:{line}: {text}")
    assert len(all_compared()) > 200
    assert not sentences, "give the thing a field, and ask the field"


def test_no_decision_is_asked_for_by_its_name() -> None:
    names = []
    for path, line, text in all_compared():
        if text in DECISIONS.shipped:
            names.append(f"{path.name}:{line}: {text}")
    assert not names, "ask an attribute of the rule, or Decision.is_best"
