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
    assert client["AccessTokenValidity"] == (60 if template.stage.name == "local" else 15)
    assert client["TokenValidityUnits"]["AccessToken"] == "minutes"


def test_each_machine_has_its_own_client_with_the_scope_of_one_role(template: Template) -> None:
    """Cognito gives a token that is asked for without a scope every scope of its client."""
    (server,) = template.of_type("AWS::Cognito::UserPoolResourceServer").values()
    clients = {
        name: each
        for name, each in template.of_type("AWS::Cognito::UserPoolClient").items()
        if "client_credentials" in each.get("AllowedOAuthFlows", ())
    }

    assert server["Identifier"] == "gnomon"
    assert [scope["ScopeName"] for scope in server["Scopes"]] == ["read", "write", "admin", "report"]
    assert set(clients) == {f"Identity/Pool/Machine-{each.name}" for each in template.stage.machine_clients}
    for machine in template.stage.machine_clients:
        client = clients[f"Identity/Pool/Machine-{machine.name}"]
        scope = {"reader": "read", "scheduler": "write", "admin": "admin", "reporter": "report"}[machine.role]
        assert client["AllowedOAuthFlows"] == ["client_credentials"]
        assert client["AllowedOAuthScopes"] == [f"Identity/Pool/Api/{scope}"]
        assert client["GenerateSecret"] is True
        assert "ExplicitAuthFlows" not in client or client["ExplicitAuthFlows"] == ["ALLOW_REFRESH_TOKEN_AUTH"]


def test_no_machine_has_access_unless_a_stage_names_it(prod: Template) -> None:
    assert prod.stage.machine_clients == ()
    assert list(prod.of_type("AWS::Cognito::UserPoolClient")) == ["Identity/Pool/UserClient"]


def test_the_token_domain_is_unique_to_the_stack_and_does_not_publish_its_account(template: Template) -> None:
    (domain,) = template.of_type("AWS::Cognito::UserPoolDomain").values()

    assert domain["Domain"].startswith(f"gnomon-{template.stage.name}-{{'Fn::Select': [0, {{'Fn::Split': ['-', ")
    assert "<StackId>" in domain["Domain"]
    assert "<AccountId>" not in domain["Domain"]
