"""Another process, elsewhere, in which this package cannot be imported: how users load what was saved."""

import json
import os
import subprocess
import sys

import numpy as np

_PROGRAM = """
import json, sys
sys.modules["embedlift"] = None  # importing it raises ImportError
import numpy as np
from sentence_transformers import SentenceTransformer
texts, trust = json.loads(sys.argv[1])
for folder in sys.argv[2:]:
    model = SentenceTransformer(folder, device="cpu", trust_remote_code=trust)
    np.save(folder.replace("/", "_") + ".npy", model.encode(texts))
"""


def encode_without_embedlift(folders, texts, elsewhere, *, trust_remote_code=False):
    """Return the vectors that plain sentence-transformers gives for each saved model."""
    elsewhere.mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["HF_MODULES_CACHE"] = str(elsewhere / "modules")
    command = [sys.executable, "-c", _PROGRAM, json.dumps([texts, trust_remote_code]), *map(str, folders)]
    subprocess.run(command, cwd=elsewhere, env=environment, check=True, capture_output=True, timeout=120)
    return [np.load(elsewhere / (str(folder).replace("/", "_") + ".npy")) for folder in folders]
