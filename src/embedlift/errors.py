"""The one error that a user is meant to read."""

from __future__ import annotations


class InputError(ValueError):
    """Something that the user gave cannot be used; the message says what, where and what to do.

    The command line prints the message alone and exits with code 2. It is a ``ValueError``, so that
    library users and scikit-learn's checks can treat it as one.
    """
