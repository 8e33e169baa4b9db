"""How good vectors are, on tasks with labels: nothing here takes part in fitting."""
