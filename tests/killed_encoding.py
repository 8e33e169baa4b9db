"""Encodings that are killed in the middle: at an event of the work, or at any moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from killed_training import Killer

if TYPE_CHECKING:
    import random
    from pathlib import Path

_HOOKS = """
import threading
from embedlift import bulk, files, journal, vector_files
from embedlift.encoder import Encoder

bulk._PART_ROWS = 20

def run(where, kill_at, arguments, log):
    seen = 0
    def before(function, then=None):
        def hooked(*given, **named):
            nonlocal seen
            seen += 1
            if seen == kill_at:
                if then is not None:
                    then(*given, **named)
                die()
            return function(*given, **named)
        return hooked
    def half(self, stem, *given):
        for file in self.files(stem):
            file.write_bytes(b"half of it")
    if where == "event":
        Encoder._forward = before(Encoder._forward)
        journal.Journal._write = before(journal.Journal._write)
        files.PartialFolder.finish = before(files.PartialFolder.finish)
        for kind in (vector_files.NpyFiles, vector_files.ParquetFiles):
            write, join = kind.write, kind.join
            kind.write = before(write, half)
            kind.join = before(join, lambda self, parts, stem: half(self, stem))
    elif where == "time":
        threading.Timer(kill_at, die).start()
    start(arguments, log)
    os._exit(0)  # the timer must not keep the process
"""


def encoding_killer(log: Path) -> Killer:
    """Return a killer of ``embedlift encode``, whose parts are of 20 rows.

    ``where`` may be ``event`` (just before the ``kill_at``-th of: a batch, a part or shard written, in which case half
    of it is there, the journal, the end) or ``time`` (after ``kill_at`` seconds, wherever that is).
    """
    return Killer(log, _HOOKS)


def kill_and_repeat(killer: Killer, arguments: list[str], rng: random.Random, kills: int, events: int) -> int:
    """Kill ``embedlift encode`` at random events, then let it finish; return how often it was killed."""
    killed = 0
    for _ in range(kills):
        if killer.run(["encode", *arguments], rng.randint(1, events), "event") == 0:
            return killed
        killed += 1
    killer.run(["encode", *arguments])
    return killed
