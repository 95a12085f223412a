"""A simulation that tries to lose a job: see docs/simulation.md."""
