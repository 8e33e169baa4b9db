"""The experiments of the BERT-flow paper on models at hand: ``PYTHONPATH=benchmarks python -m bert_flow --help``."""
