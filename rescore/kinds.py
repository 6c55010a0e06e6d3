"""What the tables of parts (rescore/parts.py) say of a kind of language model, and of a kind of network of ours.

Classes and functions are named, not imported, and found when they are used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rescore.registry import resolve


@dataclass(frozen=True, slots=True)
class Backend:
    """A kind of language model."""

    loader: str | Callable[[Any, Any], Any]
    """Makes a `LanguageModel` of a `Spec` and `ComputeOptions`; "module:function" is imported when it is used."""
    options: tuple[str, ...] = ()
    """How else than usually it can score; a case (`rescore.scoring.case`) can be named with every kind."""
    pseudo: bool = False
    """Whether scores are pseudo-log-likelihoods."""
    pseudo_with: str | None = None
    """An option with which alone they are."""
    on_hub: bool = False
    """Whether a path that is no folder is looked up as a name on the Hugging Face hub."""
    remote: bool = False
    """Whether URL#MODEL stands in the place of a path."""
    uses_torch: bool = True

    def load(self, spec: Any, computing: Any) -> Any:
        make = resolve(self.loader) if isinstance(self.loader, str) else self.loader
        return make(spec, computing)


@dataclass(frozen=True, slots=True)
class NetworkKind:
    """A kind of network of ours: what it is, what it learns, and how it scores."""

    network: str
    """The class in rescore.networks, made from a `NetworkConfig`."""
    objective: str
    """Made from a tokenizer and `ObjectiveOptions`: an `Objective`, or of a kind with `pairs` several by name."""
    backend: Backend
    scorer: str | None = None
    """Made from a `Spec` and a `Network`; None where the back-end has a loader of its own."""
    before: bool = False
    after: bool = False
    """Whether it can learn to read sentences before and after the one that is scored."""
    heads: bool = True
    """Whether its layers attend, with vectors that are divided among heads."""
    masks: bool = False
    """Whether its objective masks tokens."""
    cloze: bool = False
    """Whether it can learn to predict masked tokens in all its readings."""
    replaces: bool = False
    """Whether it learns from tokens that were put in the place of others."""
    pairs: bool = False
    """Whether it learns from translations, and cannot be trained without (but in readings of single sentences)."""
    source: bool = False
    """Whether it can learn to read the source before a translation."""
    order: bool = False
    """Whether it can learn the order of two sentences beside its objective."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A task for a linear classifier."""

    read: str
    """Makes `rescore.reports.probe.Examples` of a file, the answers' file and a number; "module:function"."""
    takes: tuple[str, ...] = ()
    """Which of `gold` and `examples` it reads beside the file."""
