"""The choice between ways to adapt a model, made from unlabelled text alone."""
