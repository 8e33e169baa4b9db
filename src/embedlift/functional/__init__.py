"""Arrays in, arrays out: the mathematics, without models, files or state."""
