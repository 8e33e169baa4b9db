"""BERT-flow: an invertible map to a standard normal cloud, fitted by maximum likelihood."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from embedlift.errors import InputError
from embedlift.functional.adam import AdamSettings, ClippedAdam
from embedlift.functional.dense_chain import DenseLayer, dense_chain
from embedlift.functional.glow import Glow, GlowEmbedding
from embedlift.transforms.flow_training import Plan, Training, one_thread
from embedlift.transforms.rows import RandomBatches, checked_rows, finite_chunks

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray
    from torch import Tensor, nn

    from embedlift.functional.flow_layers import CouplingKind
    from embedlift.functional.glow import PermutationKind

_CONSTANT_BELOW = 1e-3
_LEARNING_RATE = 3e-3
_LU_LEARNING_RATE = 4e-4

#: The released training of BERT-flow. A step there adds the mean losses of the two sides of 32 sentence
#: pairs: twice the mean loss of 64 rows. Halving the clip norm and Adam's epsilon says the same exactly.
_PAPER = {
    "epochs": 1,
    "batch_size": 64,
    "lr": 1e-3,
    "clip_norm": 0.5,
    "epsilon": 5e-7,
    "warmup": 0,
    "decay": False,
    "validation_fraction": 0.0,
}


class Flow(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Map vectors to a standard normal cloud by an invertible map, without labels.

    .. math::
        \max_\phi \; E_x \left[ \log \mathcal{N}(f_\phi(x); 0, I)
        + \log \left| \det \frac{\partial f_\phi(x)}{\partial x} \right| \right]

    f is a small Glow (:class:`embedlift.functional.glow.Glow`). The defaults differ from the
    paper's training in a learning rate that rises and falls, which gives a better held-out likelihood in
    the same number of steps, and in stopping early. ``Flow.preset("paper")`` has the released settings.

    Args:
        levels: Levels of the flow; D must be at least 2 ** levels.
        depth: Steps per level.
        width: Hidden units of the coupling networks.
        coupling: ``"additive"`` or ``"affine"``.
        permutation: ``"reversal"``, ``"random"`` (fixed) or ``"lu"`` (trained). Additive couplings with
            reversals are trained several times faster than the others.
        epochs: Most passes over the vectors.
        batch_size: Vectors per step; all of them, if there are fewer.
        lr: Highest learning rate; ``None`` is 3e-3, or 4e-4 for ``"lu"``, whose matrices bear no more.
        warmup: Steps in which it rises to that, at most half of all.
        decay: Whether it falls linearly to 0 until the end of ``fit``.
        beta1: Adam's decay of the first moment.
        beta2: Adam's decay of the second moment.
        epsilon: Added to the root of the second moment.
        weight_decay: Decoupled, on every parameter.
        clip_norm: Longest gradient let through, of the loss in bits per dimension.
        data_init: Whether ActNorm starts from the data, as published; the released code never does it.
        validation_fraction: Share of the vectors held out (at most 8192) to choose the best epoch; 0
            trains on all of them for all epochs.
        patience: Epochs in a row without a better held-out likelihood that are borne.
        seed: Of the start, the order and the choice of held-out vectors.

    Attributes:
        glow_: The fitted flow.
        losses_: Bits per dimension before training and after each epoch, on the held-out vectors, or on
            some of the training vectors if none are held out.
        n_steps_: Optimiser steps that led to ``glow_``.
        n_features_in_: D.

    References:
        Li et al. (2020), On the Sentence Embeddings from Pre-trained Language Models, arXiv:2011.05864,
        equation 4. Kingma, Dhariwal (2018), Glow, arXiv:1807.03039.
    """

    glow_: Glow
    n_features_in_: int

    def __init__(
        self,
        levels: int = 3,
        depth: int = 3,
        width: int = 32,
        *,
        coupling: CouplingKind = "additive",
        permutation: PermutationKind = "reversal",
        epochs: int = 10,
        batch_size: int = 64,
        lr: float | None = None,
        warmup: int = 100,
        decay: bool = True,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-6,
        weight_decay: float = 0.01,
        clip_norm: float = 1.0,
        data_init: bool = True,
        validation_fraction: float = 0.05,
        patience: int = 1,
        seed: int = 0,
    ) -> None:
        self.levels = levels
        self.depth = depth
        self.width = width
        self.coupling = coupling
        self.permutation = permutation
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.warmup = warmup
        self.decay = decay
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self.weight_decay = weight_decay
        self.clip_norm = clip_norm
        self.data_init = data_init
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.seed = seed

    @classmethod
    def preset(cls, name: Literal["paper", "default"], **overrides: Any) -> Flow:
        """Return an unfitted flow with the settings of the paper's code, or with this library's defaults."""
        if name not in ("paper", "default"):
            raise InputError(f"unknown preset {name!r}: choose paper or default")
        return cls(**{**(_PAPER if name == "paper" else {}), **overrides})

    def fit(self, X: ArrayLike, y: None = None) -> Flow:
        """Fit on ``X``, shape (N, D): an array, or a memory map, of which only batches are read.

        Raises:
            InputError: If there are fewer than two vectors, if all are identical, or if one holds NaN or
                infinity (its row is named).

        Warns:
            ConvergenceWarning: If the loss runs away; the last state before it did is kept.
        """
        self._check_settings()
        batches = self._batches(X, self.validation_fraction, reset=True)
        self._start(batches.sample)
        self._train(batches, self.epochs, decay=self.decay)
        return self

    def partial_fit(self, X: ArrayLike, y: None = None) -> Flow:
        """Train on for one pass over ``X``, shape (n, D), without held-out vectors and without decay.

        The first call starts the flow from its vectors, so it should have at least some hundred.
        """
        self._check_settings()
        started = hasattr(self, "glow_")
        batches = self._batches(X, 0.0, reset=not started)
        if not started:
            self._start(batches.sample)
        self._train(batches, 1, decay=False)
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.floating]:
        """Map ``X`` to z, shape (N, D) to (N, D); float32 stays float32, all else is computed in float64."""
        return self._map(X, lambda glow, x: cast("Tensor", glow(x)[0]), (self._fitted().dimension,))

    def inverse(self, Z: ArrayLike) -> NDArray[np.floating]:
        """Map z back to vectors, shape (N, D) to (N, D)."""
        return self._map(Z, Glow.inverse, (self._fitted().dimension,))

    def log_prob(self, X: ArrayLike) -> NDArray[np.floating]:
        """Return the log-density in nats of each vector: (N, D) to (N,)."""
        return self._map(X, Glow.log_prob, ())

    def sample(self, n_samples: int = 1, seed: int = 0) -> NDArray[np.float32]:
        """Draw vectors from the fitted density, shape (n_samples, D), float32."""
        z = torch.randn(n_samples, self._fitted().dimension, generator=torch.Generator().manual_seed(seed))
        return cast("NDArray[np.float32]", self.inverse(z.numpy()))

    def to_module(self) -> nn.Module:
        """Return the map as a module in float32, of its own parameters: (N, D) -> (N, D)."""
        return GlowEmbedding(copy.deepcopy(self._fitted()))

    def to_dense_chain(self) -> list[DenseLayer] | None:
        """Return the map as dense layers, see :func:`embedlift.functional.dense_chain.dense_chain`.

        None if the couplings are affine: a product of two outputs is no dense layer.
        """
        return dense_chain(self._fitted()) if self.coupling == "additive" else None

    def get_state(self) -> dict[str, NDArray[Any]]:
        """Return the fitted state as named arrays: what :func:`embedlift.transforms.storage.save` writes.

        The optimiser's moments are part of it, so that ``partial_fit`` goes on where it was.
        """
        glow = {f"glow.{name}": value.numpy() for name, value in self._fitted().state_dict().items()}
        return {
            **glow,
            "optimiser.first": self._optimiser.first.numpy(),
            "optimiser.second": self._optimiser.second.numpy(),
            "steps": np.array([self.n_steps_]),
            "losses": np.array(self.losses_),
        }

    def set_state(self, state: dict[str, NDArray[Any]]) -> Flow:
        """Take the state that :meth:`get_state` returned."""
        self.n_features_in_ = len(state["glow.levels.0.0.norm.bias"])
        self._build()
        tensors = {name: torch.from_numpy(np.array(value)) for name, value in state.items()}
        try:
            self.glow_.load_state_dict({name: tensors[f"glow.{name}"] for name in self.glow_.state_dict()})
        except RuntimeError as error:
            raise InputError(f"the state is not that of {self!r}: {error}") from None
        self._optimiser.first, self._optimiser.second = (
            tensors["optimiser.first"],
            tensors["optimiser.second"],
        )
        self.n_steps_, self.losses_ = int(state["steps"][0]), state["losses"].tolist()
        return self

    @property
    def _n_features_out(self) -> int:
        return self.n_features_in_

    def _fitted(self) -> Glow:
        check_is_fitted(self, "glow_")
        return self.glow_

    def _check_settings(self) -> None:
        if min(self.epochs, self.batch_size) < 1:
            raise InputError(f"epochs and batch_size must be at least 1, got {self.epochs} and {self.batch_size}")
        if not 0 <= self.validation_fraction < 1:
            raise InputError(f"validation_fraction must be at least 0 and below 1, got {self.validation_fraction}")
        if self.lr is not None and not self.lr > 0:
            raise InputError(f"lr must be above 0, got {self.lr}")

    def _batches(self, X: ArrayLike, held_out: float, *, reset: bool) -> RandomBatches:
        rows = checked_rows(self, X, reset=reset)
        for _ in finite_chunks(rows):
            pass
        steps = 0 if reset else self.n_steps_
        batches = RandomBatches(rows, held_out, seed=[self.seed, steps])
        if reset and batches.count < 2:
            raise InputError(f"Flow needs at least 2 vectors to train on, got n_samples = {len(rows)}")
        return batches

    def _build(self) -> None:
        self.glow_ = Glow(
            self.n_features_in_,
            self.levels,
            self.depth,
            self.width,
            self.coupling,
            self.permutation,
            self.seed,
        )
        settings = AdamSettings((self.beta1, self.beta2), self.epsilon, self.weight_decay, self.clip_norm)
        self._optimiser = ClippedAdam(sum(part.numel() for part in self.glow_.parameters()), settings)
        self.n_steps_ = 0

    def _start(self, sample: NDArray[np.float32]) -> None:
        if (sample == sample[0]).all():
            raise InputError(f"the {len(sample)} vectors to start from are identical: there is nothing to fit")
        self._build()
        if self.data_init:
            with one_thread():
                self.glow_.initialise(torch.from_numpy(sample), _CONSTANT_BELOW)

    def _train(self, batches: RandomBatches, epochs: int, *, decay: bool) -> None:
        size = min(self.batch_size, batches.count)
        training = Training(self.glow_, self._optimiser, self.n_steps_)
        lr = self.lr or (_LU_LEARNING_RATE if self.permutation == "lu" else _LEARNING_RATE)
        training.run(batches, Plan(epochs, size, lr, self.warmup, decay, self.patience))
        self.n_steps_, self.losses_ = training.steps, training.watched_losses

    @torch.no_grad()
    def _map(
        self, X: ArrayLike, function: Callable[[Glow, Tensor], Tensor], shape: tuple[int, ...]
    ) -> NDArray[np.floating]:
        """Apply ``function`` to pieces of ``X``; ``shape`` is that of one row's result."""
        glow = self._fitted()
        rows = checked_rows(self, X, reset=False)
        if rows.dtype != np.float32:
            glow = copy.deepcopy(glow).double()
        mapped = np.empty((len(rows), *shape), np.float32 if rows.dtype == np.float32 else np.float64)
        for start, chunk in finite_chunks(rows):
            mapped[start : start + len(chunk)] = function(glow, torch.from_numpy(chunk)).numpy()
        return mapped
