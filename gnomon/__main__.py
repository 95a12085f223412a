"""`python -m gnomon` is the `gnomon` program."""

from gnomon.cli import main

main()
