"""What a figure was measured on."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import torch


def describe() -> str:
    """Return processor, cores, threads and versions in one line."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = {line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")}
    processor = ", ".join(sorted(models)) or platform.processor() or platform.machine()
    return (
        f"{processor}, {os.cpu_count()} cores, {torch.get_num_threads()} threads, "
        f"Python {platform.python_version()}, torch {torch.__version__}"
    )
