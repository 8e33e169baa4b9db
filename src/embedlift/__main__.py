"""``python -m embedlift``: the command line without the console script."""

from embedlift.cli import main

main()
