"""A Lambda function of the user's, for jobs to call."""

from __future__ import annotations

import io
import json
import zipfile

from tests.e2e.stack import Aws

FUNCTION = """
import time

def handler(event, context):
    if event["payload"] == "sleep":
        time.sleep(20)
    if event["payload"] == "fail":
        raise ValueError("told to")
    return {"seen": event}
"""


def make_function(aws: Aws, name: str) -> str:
    """The name of a new function that answers what it was given, or fails, or sleeps, where the payload says so."""
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        archive.writestr("app.py", FUNCTION)
    trust = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    role = aws.iam.create_role(RoleName=name, AssumeRolePolicyDocument=policy)["Role"]["Arn"]
    aws.functions.create_function(
        FunctionName=name,
        Runtime="python3.14",
        Role=role,
        Handler="app.handler",
        Code={"ZipFile": code.getvalue()},
        Timeout=30,
    )
    return name


def remove_function(aws: Aws, name: str) -> None:
    aws.functions.delete_function(FunctionName=name)
    aws.iam.delete_role(RoleName=name)
