"""Encoding against sentence-transformers' ``encode``: see ``__main__.py``."""
