import json

from infra.http_api import POLL_PATH, PUBLIC_PATHS
from tests.infra.synthesized import Template


def test_everything_under_v1_needs_a_token_and_only_that_is_protected(template: Template) -> None:
    routes = {each["RouteKey"]: each for each in template.of_type("AWS::ApiGatewayV2::Route").values()}

    protected = {"ANY /v1/{proxy+}", f"POST {POLL_PATH}"}
    assert set(routes) == {*protected, "$default", *(f"GET {path}" for path in PUBLIC_PATHS)}
    assert {key for key, route in routes.items() if route["AuthorizationType"] == "JWT"} == protected
    (authorizer,) = template.of_type("AWS::ApiGatewayV2::Authorizer")
    assert {routes[key]["AuthorizerId"] for key in protected} == {authorizer}


def test_polls_go_to_their_own_function(template: Template) -> None:
    integrations = template.of_type("AWS::ApiGatewayV2::Integration")
    functions = {str(each["IntegrationUri"]) for each in integrations.values()}

    assert functions == {"Functions/Api/Function.Arn", "Functions/Poll/Function.Arn"}


def test_public_paths() -> None:
    assert set(PUBLIC_PATHS) == {"/health", "/ready", "/live", "/startup", "/openapi.json", "/docs"}


def test_tokens_are_of_our_pool_for_our_clients(template: Template) -> None:
    (authorizer,) = template.of_type("AWS::ApiGatewayV2::Authorizer").values()

    assert authorizer["AuthorizerType"] == "JWT"
    assert authorizer["IdentitySource"] == ["$request.header.Authorization"]
    assert authorizer["JwtConfiguration"] == {
        "Audience": [
            "Identity/Pool/UserClient",
            *(f"Identity/Pool/Machine-{each.name}" for each in template.stage.machine_clients),
        ],
        "Issuer": "https://cognito-idp.<Region>.amazonaws.com/Identity/Pool",
    }


def test_the_gateway_throttles_and_logs(template: Template) -> None:
    (stage,) = template.of_type("AWS::ApiGatewayV2::Stage").values()

    assert stage["StageName"] == "$default"
    assert stage["DefaultRouteSettings"] == {
        "ThrottlingRateLimit": template.stage.gateway_rate,
        "ThrottlingBurstLimit": template.stage.gateway_burst,
    }
    assert stage["AccessLogSettings"]["DestinationArn"] == "HttpApi/AccessLog.Arn"
    logged = json.loads(stage["AccessLogSettings"]["Format"])
    assert {"requestId", "route", "status", "ip"} <= logged.keys()
    assert not any("header" in value.lower() for value in logged.values()), "tokens are never logged"


def test_the_access_log_says_who_did_what(template: Template) -> None:
    """`routeKey` is the same for every method under /v1, so it does not tell a DELETE from a GET."""
    (stage,) = template.of_type("AWS::ApiGatewayV2::Stage").values()
    logged = json.loads(stage["AccessLogSettings"]["Format"])

    assert logged["method"] == "$context.httpMethod"
    assert logged["path"] == "$context.path"
    assert logged["caller"] == "$context.authorizer.claims.sub"
    assert logged["client"] == "$context.authorizer.claims.client_id"
    assert logged["userAgent"] == "$context.identity.userAgent"


def test_no_other_origin_is_let_in(template: Template) -> None:
    (api,) = template.of_type("AWS::ApiGatewayV2::Api").values()

    assert "CorsConfiguration" not in api


def test_only_this_api_and_no_one_else_may_call_its_function(template: Template) -> None:
    permissions = list(template.of_type("AWS::Lambda::Permission").values())

    assert {(each["FunctionName"], each["Principal"], each["Action"]) for each in permissions} == {
        (f"Functions/{name}/Function.Arn", "apigateway.amazonaws.com", "lambda:InvokeFunction")
        for name in ("Api", "Poll")
    }
    api = "arn:<Partition>:execute-api:<Region>:<AccountId>:HttpApi/Api"
    assert {each["SourceArn"] for each in permissions} == {f"{api}/*/*/*", f"{api}/*/$default"}
