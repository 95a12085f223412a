"""Your Python handlers. Each module here may register some; they run in the `jobs` function, apart from the engine.

    from functions.jobs import NonRetryable, Run, job

    @job("invoices.close")
    def close(payload, run: Run):
        ...
        return {"closed": 3}

A module is imported when one of its handlers is called first: one that cannot be imported fails its own handlers alone.
It sees the packages of requirements/functions.in and boto3, and the variables that the stage sets.

A job names it as `{"type": "handler", "name": "invoices.close"}`. What it returns (JSON, at most 32 KB) is the result
of the execution; what it raises fails the attempt as `HANDLER_ERROR:<class>`.
"""

from functions.jobs.registry import NonRetryable, Run, job

__all__ = ["NonRetryable", "Run", "job"]
