"""Unlabelled text and a model -> the choice: one pass over all layers, then every candidate in turn."""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from embedlift.choosing.candidates import Candidate, layer_mixes, transforms
from embedlift.choosing.choice import RULE, Choice, choose
from embedlift.choosing.evidence import Evidence, gather
from embedlift.choosing.probes import FEWEST_WORDS, Probes, make_probes
from embedlift.choosing.states import States, StatesEncoder, joined, mixable_layers
from embedlift.encoder import Encoder, refuse_non_finite
from embedlift.errors import InputError
from embedlift.functional.moments import Moments
from embedlift.layers import pooling_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from embedlift.encoder import Progress

#: Texts that are looked at, and sentences that are shortened, at most; and the fewest for a choice.
MOST_TEXTS, MOST_ANCHORS, FEWEST_ANCHORS = 10_000, 1000, 100

#: Seconds that the choice may take, unless told otherwise.
BUDGET = 600.0

#: Share of the budget that the pass over the text may take.
_PASS_SHARE = 0.7

_CHUNK = 500


def decide(
    encoder: Encoder, texts: Sequence[str], *, seed: int, budget: float, progress: Progress | None = None
) -> tuple[Choice, Encoder, Any]:
    """Return the choice, the encoder with the chosen pooling, and the chosen transform, unfitted (None for none).

    Arguments and errors are those of :func:`search`.
    """
    choice = search(encoder, texts, seed=seed, budget=budget, progress=progress)
    chosen = choice.chosen
    pooled = Encoder(encoder.model, pooling=chosen.pooling, batch_tokens=encoder.batch_tokens, long=encoder.long)
    make = transforms(pooled.dimension)[chosen.transform]
    return choice, pooled, None if make is None else make()


def search(
    encoder: Encoder,
    texts: Sequence[str],
    *,
    seed: int,
    budget: float,
    progress: Progress | None = None,
) -> Choice:
    """Choose how to adapt a model to ``texts``, which carry no labels.

    The same arguments give the same choice, unless the budget ends the pass over the text early (a warning says so).

    Args:
        encoder: The model as it is.
        texts: Distinct texts.
        seed: Of the sample and of what is left out of it.
        budget: Seconds.
        progress: Called with (texts done, texts to encode).

    Raises:
        InputError: If there are too few texts with enough words, or if the model's own vectors are not numbers, or all
            the same.
    """
    sample = _sample(list(texts), MOST_TEXTS, seed)
    probes = make_probes(sample, min(MOST_ANCHORS, len(sample) // 2), seed)  # transforms are fitted on the others
    if len(probes.anchors) < FEWEST_ANCHORS:
        raise InputError(
            f"--method auto needs {2 * FEWEST_ANCHORS} texts, {FEWEST_ANCHORS} of them with at least {FEWEST_WORDS} "
            f"different words, and the corpus has {len(sample)}, with {len(probes.anchors)} to use: give more text, or "
            "name a method, such as --method whitening"
        )
    sample, probes = _shortened_first(sample, probes)
    layers = mixable_layers(encoder.model)
    mixes = layer_mixes(layers, own_is_mean=pooling_of(encoder.model) == "mean" and len(encoder.model) <= 3)
    kept = tuple(sorted({state for mix in mixes if mix is not None for state in mix}))
    states, shortened = _one_pass(StatesEncoder(encoder, kept), sample, probes, budget, progress)
    refuse_non_finite(states.own, lambda row: repr(sample[row])[:60])
    evidence: dict[Candidate, Evidence] = {}
    for mix, pooling in mixes.items():
        names = None if mix is None else ("none", "center", RULE.transform)
        try:
            evidence |= weigh(states, shortened, probes, mix, pooling, seed, names)
        except InputError as error:  # all the same, or not numbers: such a layer is no candidate
            if mix is None:
                raise InputError(
                    f"--method auto compares the model's own vectors with others, and cannot: {error}. "
                    "Name a method and other layers, such as --method whitening --pooling mean:0,1"
                ) from error
    return choose(list(evidence), list(evidence.values()), seed)


def weigh(
    states: States,
    shortened: States,
    probes: Probes,
    mix: tuple[int, ...] | None,
    pooling: str | None,
    seed: int,
    names: Sequence[str] | None = None,
) -> dict[Candidate, Evidence]:
    """Return the evidence for transforms of the vectors of one layer mix.

    Transforms are fitted on the texts that were not shortened: on those that they were fitted on, they look too good.

    Args:
        states: Of the texts; those of the shortened sentences are at ``probes.anchors``.
        shortened: Of the copies.
        probes: The copies.
        mix: The layers.
        pooling: Their name.
        seed: Of the evidence.
        names: Of the transforms; by default all.

    Raises:
        InputError: If one of them cannot be fitted.
    """
    vectors, copies = states.vectors(mix), shortened.vectors(mix)
    anchors = vectors[probes.anchors]
    moments = Moments.of(np.delete(vectors, probes.anchors, axis=0))
    found = {}
    makers = transforms(vectors.shape[1])
    for name in makers if names is None else names:
        make = makers[name]
        mapped = (lambda x: x) if make is None else fitted(make(), moments).transform
        found[Candidate(pooling, mix, name)] = gather(mapped(anchors), mapped(copies), probes.deletion, seed)
    return found


def fitted(transform: Any, moments: Moments) -> Any:
    """Fit a transform to the moments of texts, however few."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* vectors span only .* directions")  # OAS makes up for it
        return transform.fit_moments(moments)


def _sample(texts: list[str], most: int, seed: int) -> list[str]:
    rows = np.random.default_rng(seed).permutation(len(texts))[:most]
    return [texts[row] for row in rows]


def _shortened_first(sample: list[str], probes: Probes) -> tuple[list[str], Probes]:
    """Put the sentences that were shortened before the others."""
    others = np.setdiff1d(np.arange(len(sample)), probes.anchors)
    ordered = [sample[row] for row in (*probes.anchors, *others)]
    return ordered, replace(probes, anchors=np.arange(len(probes.anchors)))


def _one_pass(
    encoder: StatesEncoder,
    sample: list[str],
    probes: Probes,
    budget: float,
    progress: Progress | None,
) -> tuple[States, States]:
    """Encode the copies, their sentences and as many others, then as many of the texts as the budget allows."""
    started = time.monotonic()
    copies = len(probes.shortened)
    total = len(sample) + copies
    done = 0

    def encode(texts: list[str]) -> States:
        nonlocal done
        parts = []
        for start in range(0, len(texts), _CHUNK):
            parts.append(encoder.encode(texts[start : start + _CHUNK]))
            done += len(texts[start : start + _CHUNK])
            if progress is not None:
                progress(done, total)
        return joined(parts)

    shortened = encode(probes.shortened)
    needed = 2 * len(probes.anchors)
    parts = [encode(sample[:needed])]
    for start in range(needed, len(sample), _CHUNK):
        if time.monotonic() - started > _PASS_SHARE * budget:
            warnings.warn(
                f"the budget of {budget:.0f} s ended the pass over the text after {done - copies} of {len(sample)} "
                "texts: the choice rests on those, and another run may read more or fewer",
                stacklevel=2,
            )
            break
        parts.append(encode(sample[start : start + _CHUNK]))
    if progress is not None:
        progress(total, total)
    return joined(parts), shortened
