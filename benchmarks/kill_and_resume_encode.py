"""Kill ``embedlift encode`` again and again, and start it again: are the files the same in every bit?

Each round draws a format, a number type, shards or one file, and one to five kills by SIGKILL: at an event (a batch, a
part or shard of which half is written, the journal, the last renaming) or at any moment of the clock. Then the same
command is repeated until it ends, and the bytes are compared with those of an uninterrupted run.

Usage: python benchmarks/kill_and_resume_encode.py [rounds, 20 by default] [seed]
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from conftest import save_tiny, sentences  # type: ignore[import-not-found]
from killed_encoding import encoding_killer  # type: ignore[import-not-found]

TEXTS, EVENTS, SECONDS = 200, 60, 1.5


def contents(path: Path) -> dict[str, bytes]:
    """Return the bytes of an output, a file or a folder, by name; a file's scales belong to it."""
    scales = path.with_suffix(".scale.npy")
    files = sorted(path.iterdir()) if path.is_dir() else [path, *([scales] if scales.exists() else [])]
    return {file.name if path.is_dir() else file.suffixes[0]: file.read_bytes() for file in files}


def main(rounds: int, seed: int) -> None:
    """Print each round and how many ended in the same bytes."""
    rng = random.Random(seed)
    same = killed = 0
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "texts.txt").write_text("\n".join(sentences(TEXTS)) + "\n", encoding="utf-8")
        model = str(save_tiny(work / "model", "bert"))
        killer = encoding_killer(work / "log.txt")
        for number in range(rounds):
            kind, dtype = rng.choice(("npy", "parquet")), rng.choice(("float32", "float16", "int8"))
            shards = rng.choice(([], ["--shard-rows", "70"]))
            base = ["encode", model, str(work / "texts.txt"), "--batch-tokens", "100", "--output-dtype", dtype, *shards]
            output, whole = work / f"out-{number}.{kind}", work / f"whole-{number}.{kind}"
            killer.run([*base, "--output", str(whole)])
            kills = 0
            for _ in range(rng.randint(1, 5)):
                where = rng.choice(("event", "event", "time"))
                moment = rng.randint(1, EVENTS) if where == "event" else rng.uniform(0, SECONDS)
                if killer.run([*base, "--output", str(output)], moment, where) == 0:
                    break
                kills += 1
            if not output.exists() or output.with_name(f"{output.name}.partial").exists():
                killer.run([*base, "--output", str(output)])
            equal = contents(output) == contents(whole)
            same += equal
            killed += kills
            shape = " in shards" if shards else ""
            verdict = "same" if equal else "DIFFERENT"
            print(f"{number + 1}: {kind}, {dtype}{shape}, killed {kills} times: {verdict}", flush=True)
        killer.close()
    print(f"{same} of {rounds} encodings, killed {killed} times, ended in the same bytes as uninterrupted ones")
    sys.exit(same != rounds)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20, int(sys.argv[2]) if len(sys.argv) > 2 else 0)
