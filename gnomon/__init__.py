"""The client of Gnomon: for Python programs, and on the command line."""

__version__ = "0.1.0"
