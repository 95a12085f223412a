"""The commands of the `gnomon` program, a module for each group of them."""
