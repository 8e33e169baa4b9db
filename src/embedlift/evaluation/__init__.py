"""How good vectors are on tasks with labels, and what they look like without: nothing here takes part in fitting."""
