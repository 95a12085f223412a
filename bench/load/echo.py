"""The floor: a bare function behind the same kind of route, deployed beside the stack and removed again."""

from __future__ import annotations

import contextlib
import io
import json
import uuid
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any

import boto3
from botocore.config import Config

from gnomon.local import emulator
from gnomon.local.aws import ACCOUNT

_CODE = """import json


def handler(event, context):
    body = json.loads(event["body"])
    return {"statusCode": 200, "headers": {"Content-Type": "application/json"}, "body": json.dumps(body)}
"""
_TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"},
    ],
}


@contextlib.contextmanager
def echo(endpoint: str, outputs: Mapping[str, str]) -> Iterator[str]:
    """The address of a POST route with the stack's own kind of authorizer, whose function reads JSON and writes it."""
    session = boto3.Session(emulator.ROOT_KEY, emulator.ROOT_KEY, region_name=emulator.REGION)
    config = Config(proxies={}, connect_timeout=5, read_timeout=30)

    def client(service: str) -> Any:
        return session.client(service, endpoint_url=endpoint, config=config)  # type: ignore[call-overload]  # literals only

    functions, iam, gateway = client("lambda"), client("iam"), client("apigatewayv2")
    name = f"load-echo-{uuid.uuid4().hex[:8]}"
    with contextlib.ExitStack() as afterwards:
        role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(_TRUST))["Role"]["Arn"]
        afterwards.callback(iam.delete_role, RoleName=name)
        function = functions.create_function(
            FunctionName=name,
            Runtime="python3.14",
            Handler="echo.handler",
            Role=role,
            Code={"ZipFile": _zipped()},
            MemorySize=1024,
            Timeout=25,
        )["FunctionArn"]
        afterwards.callback(functions.delete_function, FunctionName=name)
        api = gateway.create_api(Name=name, ProtocolType="HTTP")["ApiId"]
        afterwards.callback(gateway.delete_api, ApiId=api)
        functions.add_permission(
            FunctionName=name,
            StatementId="gateway",
            Action="lambda:InvokeFunction",
            Principal="apigateway.amazonaws.com",
            SourceArn=f"arn:aws:execute-api:{emulator.REGION}:{ACCOUNT}:{api}/*/*",
        )
        integration = gateway.create_integration(
            ApiId=api,
            IntegrationType="AWS_PROXY",
            IntegrationUri=function,
            PayloadFormatVersion="2.0",
        )["IntegrationId"]
        authorizer = gateway.create_authorizer(
            ApiId=api,
            Name="tokens",
            AuthorizerType="JWT",
            IdentitySource=["$request.header.Authorization"],
            JwtConfiguration={
                "Issuer": f"https://cognito-idp.{emulator.REGION}.amazonaws.com/{outputs['UserPoolId']}",
                "Audience": [outputs["UserClientId"]],
            },
        )["AuthorizerId"]
        gateway.create_route(
            ApiId=api,
            RouteKey="POST /v1/{proxy+}",
            Target=f"integrations/{integration}",
            AuthorizationType="JWT",
            AuthorizerId=authorizer,
        )
        gateway.create_stage(ApiId=api, StageName="$default", AutoDeploy=True)
        yield f"{endpoint}/_aws/execute-api/{api}/$default/v1/echo"


def _zipped() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("echo.py", _CODE)
    return packed.getvalue()
