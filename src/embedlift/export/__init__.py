"""Models for places without torch, and for places without a transformer."""
