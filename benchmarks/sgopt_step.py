"""A whole SG-OPT training step against its plain formulation, and what the step spends its time on.

Goal: at least twice as fast at B = 64, where what is neither student, teacher nor head takes at most 20 % of the step.
Both run on the same batches of the same model on the same threads, one step of each in turn, in float32. The plain
step is read from the developers' shared folder; it feeds eager attention and all attention maps through both towers,
takes cosines by broadcasting and the regulariser by autograd, as the released code does.

Peak memory is that of three steps in a process of its own, over what it held before, with the model loaded.

Usage: python benchmarks/sgopt_step.py MODEL CORPUS.txt [rounds]
"""

from __future__ import annotations

import copy
import os
import resource
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from machine import describe
from transformers import AutoModel, AutoTokenizer

from embedlift.encoder import Encoder
from embedlift.training import trainer
from embedlift.training.checkpoints import CheckpointFolder
from embedlift.training.guidance import SelfGuidedObjective, sentence_ids
from embedlift.training.settings import TrainingSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SIZES = (16, 64)


class Product:
    """The product's step, by its own parts, with a stopwatch between them."""

    def __init__(self, model: str, size: int, rounds: int) -> None:
        self.model = Encoder(model, pooling="cls", max_length=128).model
        self.objective = SelfGuidedObjective(self.model, TrainingSettings(batch_size=size), "sg-opt")
        self.run = trainer._Run(self.model, self.objective, rounds, CheckpointFolder(Path("unused")), None, None)
        self.optimiser, self.schedule = self.run.optimiser()
        self.times: dict[str, list[float]] = defaultdict(list)
        self.model.train()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Add the time of the block to a part of the step."""
        start = time.perf_counter()
        yield
        self.times[name].append(time.perf_counter() - start)

    def step(self, texts: list[str]) -> None:
        """Make one step; the backward pass is cut at the student's vectors, so that its parts can be told apart."""
        with self.part("step"):
            with self.part("tokens"):
                features = self.model.preprocess(texts)
                same = sentence_ids([features])
            with self.part("student"):
                cls = self.objective.sentence_vectors(features)
            with self.part("teacher"):
                hidden = self.objective.guide(features)
            with self.part("head and loss"):
                cut = cls.detach().requires_grad_()
                self.objective.last_loss = self.objective.contrast(cut, hidden, same)
                torch.autograd.backward(self.objective.last_loss)
            with self.part("student, backward"):
                torch.autograd.backward(cls, cut.grad)
            with self.part("regulariser and clipping"):
                self.run.finish_gradients()
            with self.part("optimiser"):
                self.optimiser.step()
                self.schedule.step()
                for tensor in self.run.weights.values():
                    tensor.grad = None


class Plain:
    """The plain step of the shared folder, in a class so that the two can take turns."""

    def __init__(self, model: str) -> None:
        self.loss = _plain_loss()
        self.tokenizer = AutoTokenizer.from_pretrained(model)
        self.student = AutoModel.from_pretrained(model, dtype=torch.float32, attn_implementation="eager").train()
        self.teacher = copy.deepcopy(self.student).train()
        self.teacher.requires_grad_(False)
        self.student.embeddings.requires_grad_(False)
        width = self.student.config.hidden_size
        self.head = torch.nn.Sequential(
            torch.nn.Linear(width, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 4096), torch.nn.GELU()
        )
        self.fixed = dict(self.teacher.named_parameters())
        self.trained = [p for p in [*self.student.parameters(), *self.head.parameters()] if p.requires_grad]
        self.optimiser = torch.optim.AdamW(self.trained, lr=5e-5, betas=(0.9, 0.9), foreach=False)
        self.times: list[float] = []

    def step(self, texts: list[str]) -> None:
        """Make one step."""
        start = time.perf_counter()
        batch = self.tokenizer(texts, return_tensors="pt", padding=True, truncation=True, max_length=128)
        mask = batch["attention_mask"][:, None, :, None].float()
        everything = {"output_hidden_states": True, "output_attentions": True}
        hidden = torch.stack(self.teacher(**batch, **everything).hidden_states, 1)
        views = (hidden * mask).sum(2) / mask.sum(2)
        cls = self.student(**batch, **everything).last_hidden_state[:, 0]
        loss = self.loss(self.head(cls), self.head(views))
        penalty = sum(torch.norm(self.fixed[n] - p, p=2) ** 2 for n, p in self.student.named_parameters())
        self.optimiser.zero_grad()
        (loss + 0.1 * penalty).backward()
        torch.nn.utils.clip_grad_norm_(self.trained, 1.0, foreach=False)
        self.optimiser.step()
        self.times.append(time.perf_counter() - start)


def _plain_loss() -> Callable[..., Any]:
    shared = Path(os.environ.get("EMBEDLIFT_SHARED", Path(__file__).parents[2] / "shared"))
    sys.path.insert(0, str(shared / "peers"))
    from sgopt_loss_plain import loss_plain  # type: ignore[import-not-found]

    return loss_plain


def compare(model: str, texts: list[str], size: int, rounds: int) -> None:
    """Print the medians of both steps in turn, their ratio, and the parts of the product's."""
    product, plain = Product(model, size, rounds + 1), Plain(model)
    for number in range(rounds + 1):
        batch = texts[number * size : (number + 1) * size]
        product.step(batch)
        plain.step(batch)
    median = {name: statistics.median(times[1:]) for name, times in product.times.items()}
    whole, slow = median.pop("step"), statistics.median(plain.times[1:])
    print(f"B = {size}: product {whole:.3f} s, plain {slow:.3f} s, {slow / whole:.2f} times faster (goal 2 at B = 64)")
    named = median["student"] + median["student, backward"], median["teacher"], median["head and loss"]
    rest = whole - sum(named)
    shares = zip(("student", "teacher", "head and loss", "rest"), (*named, rest), strict=True)
    print("  " + ", ".join(f"{name} {100 * part / whole:.0f} %" for name, part in shares) + " (goal: rest <= 20 %)")
    print("  of the rest: " + ", ".join(f"{name} {1e3 * median[name]:.0f} ms" for name in median if name in _REST))


def megabytes(model: str, texts: list[str], size: int, which: str) -> float:
    """Return by how much three steps raise the peak memory of this process."""
    step = (Product(model, size, 3) if which == "product" else Plain(model)).step
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(3):
        step(texts[number * size : (number + 1) * size])
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1000


def compare_memory(model: str, corpus: str, size: int) -> None:
    """Print the peak memory of both, each measured in a new process."""
    used = {}
    for which in ("product", "plain"):
        command = [sys.executable, __file__, model, corpus, "memory", str(size), which]
        variables = {**os.environ, "OMP_NUM_THREADS": "1"}
        used[which] = float(subprocess.run(command, env=variables, check=True, stdout=subprocess.PIPE).stdout)
    print(f"B = {size}: peak memory: product {used['product']:.0f} MB, plain {used['plain']:.0f} MB")


_REST = ("tokens", "regulariser and clipping", "optimiser")


def main(model: str, corpus: str, arguments: list[str]) -> None:
    """Compare at every size."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    texts = [line for line in Path(corpus).read_text(encoding="utf-8").split("\n") if line.strip()]
    if arguments[:1] == ["memory"]:
        print(megabytes(model, texts, int(arguments[1]), arguments[2]))
        return
    rounds = int(arguments[0]) if arguments else 5
    print(f"{describe()}; medians of {rounds}")
    for size in SIZES:  # memory first: a child starts with the peak of its parent
        compare_memory(model, corpus, size)
    for size in SIZES:
        compare(model, texts, size, rounds)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
