"""Methods that train the encoder itself: from settings and a corpus to an outcome, resumed after any kill.

``fine_tuning`` is the whole way; ``trainer`` alone knows the trainer of sentence-transformers; ``guidance`` turns
student and frozen guide into the tensors of an objective.
"""
