"""What follows from a write of a job's row that applied: its hints, then the permits and the probes that it let go.

Everybody whose write applied calls `carry_out`, so that no way out of a run forgets a part of it.
"""

from __future__ import annotations

from functions.usecases import circuits, concurrency
from functions.usecases.circuits import Answered
from functions.usecases.services import Engine
from functions.usecases.writing import Applied, send


def carry_out(engine: Engine, applied: Applied, answered: Answered | None = None) -> None:
    """Do what follows from the write. `answered`: what the target said, where the writer has called it."""
    send(engine, applied.job, applied.write.hints)
    concurrency.after_write(engine, applied)
    circuits.after_write(engine, applied, answered)
