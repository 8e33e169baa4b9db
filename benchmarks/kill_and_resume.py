"""Kill training at random points and start it again: is the result the same in every bit?

Each round draws a method, a kind of model and one to three moments to die, by SIGKILL: in a step, before its update,
or while a checkpoint is written but not sealed. Then the same command is repeated until it ends, and the saved
weights are compared with those of an uninterrupted run.

Usage: python benchmarks/kill_and_resume.py [rounds, 20 by default] [seed]
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from conftest import save_tiny, sentences  # type: ignore[import-not-found]
from killed_training import Killer  # type: ignore[import-not-found]

METHODS = ("sg", "sg-opt1", "sg-opt2", "sg-opt")
KINDS = ("bert", "roberta", "llama")
STEPS = 14


def command(work: Path, kind: str, method: str, output: Path) -> list[str]:
    """Return the arguments of a run of 14 steps with dropout, in two epochs."""
    flags = {"head-width": 32, "lr": 1e-3, "batch-size": 8, "epochs": 2, "checkpoint-steps": 3}
    extra = [str(part) for name, value in flags.items() for part in (f"--{name}", value)]
    corpus = str(work / "corpus.txt")
    return [str(work / kind), "--corpus", corpus, "--method", method, "--output", str(output), *extra]


def killed_round(
    killer: Killer, work: Path, kind: str, method: str, kills: list[tuple[str, int]], output: Path
) -> bool:
    """Run, die, run again, and so on; whether the result is that of the uninterrupted run."""
    arguments = command(work, kind, method, output)
    for where, step in kills:
        killer.adapt(arguments, kill_at=step, where=where)
        if output.exists():  # the moment to die lay before the checkpoint from which the run went on
            break
    if not output.exists() and killer.adapt(arguments) != 0:
        return False
    whole = work / f"whole-{kind}-{method}"
    if not whole.exists():
        killer.adapt(command(work, kind, method, whole))
    one, other = (load_file(folder / "model.safetensors") for folder in (output, whole))
    return all(torch.equal(one[name], other[name]) for name in other)


def main(rounds: int, seed: int) -> None:
    """Print each round and how many ended in the same bits."""
    rng = random.Random(seed)
    same = killed = 0
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "corpus.txt").write_text("\n".join(sentences(50)) + "\n", encoding="utf-8")
        killer = Killer(work / "log.txt")
        for kind in KINDS:
            save_tiny(work / kind, kind)
        for number in range(rounds):
            kind, method = rng.choice(KINDS), rng.choice(METHODS)
            kills = [(rng.choice(("step", "step", "save")), rng.randint(1, STEPS)) for _ in range(rng.randint(1, 3))]
            equal = killed_round(killer, work, kind, method, kills, work / f"out-{number}")
            same += equal
            killed += len(kills)
            moments = ", ".join(where if where == "save" else f"step {step}" for where, step in kills)
            print(
                f"{number + 1}: {kind}, {method}, killed at {moments}: {'same' if equal else 'DIFFERENT'}", flush=True
            )
        killer.close()
    print(f"{same} of {rounds} runs, killed {killed} times, ended in the same bits as uninterrupted ones")
    sys.exit(same != rounds)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20, int(sys.argv[2]) if len(sys.argv) > 2 else 0)
