from tests.infra.synthesized import Template


def test_groups(template: Template) -> None:
    groups = {each["GroupName"] for each in template.of_type("AWS::Cognito::UserPoolGroup").values()}

    assert groups == {"admin", "scheduler", "viewer"}


def test_users_are_made_by_an_administrator_with_strong_passwords(template: Template) -> None:
    pool = template.properties("Identity/Pool")

    assert pool["AdminCreateUserConfig"] == {"AllowAdminCreateUserOnly": True}
    policy = pool["Policies"]["PasswordPolicy"]
    assert policy["MinimumLength"] >= 12
    assert all(policy[f"Require{kind}"] for kind in ("Lowercase", "Uppercase", "Numbers", "Symbols"))


def test_production_requires_a_second_factor_and_keeps_its_users(prod: Template, local: Template) -> None:
    assert prod.properties("Identity/Pool")["MfaConfiguration"] == "ON"
    assert prod.properties("Identity/Pool")["DeletionProtection"] == "ACTIVE"
    assert local.properties("Identity/Pool")["MfaConfiguration"] == "OPTIONAL"


def test_people_sign_in_with_a_public_client(template: Template) -> None:
    client = template.properties("Identity/Pool/UserClient")

    assert set(client["ExplicitAuthFlows"]) == {
        "ALLOW_USER_PASSWORD_AUTH",
        "ALLOW_USER_SRP_AUTH",
        "ALLOW_REFRESH_TOKEN_AUTH",
    }
    assert client["GenerateSecret"] is False
    assert client["AllowedOAuthFlowsUserPoolClient"] is False
    assert client["PreventUserExistenceErrors"] == "ENABLED"
    assert client["AccessTokenValidity"] == 60


def test_machines_get_tokens_for_our_scopes_only(template: Template) -> None:
    (server,) = template.of_type("AWS::Cognito::UserPoolResourceServer").values()
    client = template.properties("Identity/Pool/MachineClient")

    assert server["Identifier"] == "gnomon"
    assert [scope["ScopeName"] for scope in server["Scopes"]] == ["read", "write", "admin"]
    assert client["AllowedOAuthFlows"] == ["client_credentials"]
    assert client["AllowedOAuthScopes"] == [f"Identity/Pool/Api/{name}" for name in ("read", "write", "admin")]
    assert client["GenerateSecret"] is True
    assert "ExplicitAuthFlows" not in client or client["ExplicitAuthFlows"] == ["ALLOW_REFRESH_TOKEN_AUTH"]


def test_the_token_domain_is_unique_to_account_and_stage(template: Template) -> None:
    (domain,) = template.of_type("AWS::Cognito::UserPoolDomain").values()

    assert domain["Domain"] == f"gnomon-{template.stage.name}-<AccountId>"
