"""A model for tests of the evaluation: it looks its vectors up."""

import numpy as np


class TableEncoder:
    """Looks vectors up, and remembers what it was asked for."""

    def __init__(self, table):
        self.table = table
        self.asked = []

    def encode(self, texts, *, progress=None):
        self.asked += texts
        return np.array([self.table[text] for text in texts], dtype=np.float64).reshape(len(texts), -1)
