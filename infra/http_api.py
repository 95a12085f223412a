"""The HTTP API: tokens are checked at the gateway for everything under /v1; the function answers the rest itself."""

import json
from collections.abc import Sequence

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_apigatewayv2_authorizers as authorizers
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.nag import acknowledge
from infra.stage import Stage

PROTECTED_PATH = "/v1/{proxy+}"
POLL_PATH = "/v1/workers/{workerId}/poll"
PUBLIC_PATHS = ("/health", "/ready", "/live", "/startup", "/openapi.json", "/docs")

_ACCESS_LOG = {
    "requestId": "$context.requestId",
    "time": "$context.requestTime",
    "ip": "$context.identity.sourceIp",
    "userAgent": "$context.identity.userAgent",
    "method": "$context.httpMethod",
    "route": "$context.routeKey",
    "path": "$context.path",
    "status": "$context.status",
    "bytes": "$context.responseLength",
    "latency": "$context.responseLatency",
    "caller": "$context.authorizer.claims.sub",
    "client": "$context.authorizer.claims.client_id",
    "error": "$context.error.message",
    "authorizerError": "$context.authorizer.error",
}


class HttpApi(Construct):
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        stage: Stage,
        function: lambda_.IFunction,
        poll_function: lambda_.IFunction,
        issuer: str,
        client_ids: Sequence[str],
    ) -> None:
        super().__init__(scope, construct_id)
        self.api = apigateway.HttpApi(self, "Api", description=f"Gnomon {stage.name}", create_default_stage=False)
        integration = integrations.HttpLambdaIntegration("Function", function, scope_permission_to_route=False)
        authorizer = authorizers.HttpJwtAuthorizer("Tokens", issuer, jwt_audience=list(client_ids))
        self.api.add_routes(
            path=PROTECTED_PATH,
            methods=[apigateway.HttpMethod.ANY],
            integration=integration,
            authorizer=authorizer,
        )
        self.api.add_routes(
            path=POLL_PATH,
            methods=[apigateway.HttpMethod.POST],
            integration=integrations.HttpLambdaIntegration("Poll", poll_function, scope_permission_to_route=False),
            authorizer=authorizer,
        )
        for path in PUBLIC_PATHS:
            self._public(integration, path=path, method=apigateway.HttpMethod.GET)
        fallback = apigateway.HttpRoute(
            self, "Fallback", http_api=self.api, route_key=apigateway.HttpRouteKey.DEFAULT, integration=integration
        )
        # The permission above names methods and paths, and the fallback has neither.
        function.add_permission(
            "CallFromFallback",
            principal=iam.ServicePrincipal("apigateway.amazonaws.com"),
            source_arn=Stack.of(self).format_arn(
                service="execute-api", resource=self.api.api_id, resource_name="*/$default"
            ),
        )
        acknowledge(
            fallback,
            APIG4="Paths that no route knows get 404 in the API's own shape; without claims the function answers "
            "nothing else.",
        )

        access_log = logs.LogGroup(
            self,
            "AccessLog",
            retention=logs.RetentionDays[stage.log_retention],
            removal_policy=RemovalPolicy[stage.removal_policy],
        )
        self.stage = apigateway.CfnStage(
            self,
            "Stage",
            api_id=self.api.api_id,
            stage_name="$default",
            auto_deploy=True,
            default_route_settings=apigateway.CfnStage.RouteSettingsProperty(
                throttling_rate_limit=stage.gateway_rate, throttling_burst_limit=stage.gateway_burst
            ),
            access_log_settings=apigateway.CfnStage.AccessLogSettingsProperty(
                destination_arn=access_log.log_group_arn, format=json.dumps(_ACCESS_LOG)
            ),
        )

    def _public(
        self, integration: apigateway.HttpRouteIntegration, *, path: str, method: apigateway.HttpMethod
    ) -> None:
        for route in self.api.add_routes(path=path, methods=[method], integration=integration):
            acknowledge(route, APIG4="Health and documentation are public and tell nothing about jobs.")
