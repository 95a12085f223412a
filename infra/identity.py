"""Who may call the API: a user pool with three groups, people's client, and a client for each machine."""

from aws_cdk import Duration, Fn, RemovalPolicy, Stack
from aws_cdk import aws_cognito as cognito
from constructs import Construct

from infra.nag import acknowledge
from infra.stage import Stage

GROUPS = {
    "admin": "May do everything",
    "scheduler": "Reads all jobs; creates, changes and deletes its own",
    "viewer": "Reads its own jobs",
}
SCOPES = {
    "read": "Read all jobs",
    "write": "Create, change and delete own jobs",
    "admin": "Everything",
    "report": "Report by callback token on attempts",
}
ROLE_SCOPES = {"reader": "read", "scheduler": "write", "admin": "admin", "reporter": "report"}
"""A machine's one scope, by its role: a token requested without a scope gets all scopes of its client (Cognito)."""
RESOURCE_SERVER = "gnomon"


class Identity(Construct):
    def __init__(self, scope: Construct, construct_id: str, *, stage: Stage) -> None:
        super().__init__(scope, construct_id)
        self.pool = cognito.UserPool(
            self,
            "Pool",
            self_sign_up_enabled=False,
            sign_in_aliases=cognito.SignInAliases(username=True),
            password_policy=cognito.PasswordPolicy(
                min_length=12,
                require_digits=True,
                require_lowercase=True,
                require_symbols=True,
                require_uppercase=True,
                temp_password_validity=Duration.days(3),
            ),
            mfa=cognito.Mfa[stage.multi_factor],
            mfa_second_factor=cognito.MfaSecondFactor(otp=True, sms=False),
            account_recovery=cognito.AccountRecovery.NONE,
            deletion_protection=stage.deletion_protection,
            removal_policy=RemovalPolicy[stage.removal_policy],
        )
        if stage.multi_factor != "REQUIRED":
            acknowledge(self.pool, COG2="This stage's users are test users; production requires a second factor.")
        acknowledge(
            self.pool,
            COG3="Threat protection belongs to Cognito's Plus plan, priced per user; users are made by an "
            "administrator, and the gateway throttles.",
            COG8="The Essentials plan has what the API needs: groups, scopes, a second factor.",
        )
        for name, description in GROUPS.items():
            cognito.CfnUserPoolGroup(
                self,
                f"Group{name.capitalize()}",
                user_pool_id=self.pool.user_pool_id,
                group_name=name,
                description=description,
            )

        self.user_client = self.pool.add_client(
            "UserClient",
            auth_flows=cognito.AuthFlow(user_password=True, user_srp=True),
            disable_o_auth=True,
            generate_secret=False,
            prevent_user_existence_errors=True,
            # API Gateway does not look tokens up: a group that a user leaves counts for as long as this.
            access_token_validity=Duration.minutes(stage.person_token_minutes),
            id_token_validity=Duration.minutes(stage.person_token_minutes),
            refresh_token_validity=Duration.days(1),
        )

        scopes = [
            cognito.ResourceServerScope(scope_name=name, scope_description=description)
            for name, description in SCOPES.items()
        ]
        server = self.pool.add_resource_server("Api", identifier=RESOURCE_SERVER, scopes=scopes)
        by_name = {each.scope_name: cognito.OAuthScope.resource_server(server, each) for each in scopes}
        self.machine_clients = {
            machine.name: self.pool.add_client(
                f"Machine-{machine.name}",
                user_pool_client_name=f"gnomon-{stage.name}-{machine.name}",
                generate_secret=True,
                o_auth=cognito.OAuthSettings(
                    flows=cognito.OAuthFlows(client_credentials=True), scopes=[by_name[ROLE_SCOPES[machine.role]]]
                ),
                prevent_user_existence_errors=True,
                access_token_validity=Duration.hours(1),
            )
            for machine in stage.machine_clients
        }
        self.machine_teams = {
            self.machine_clients[machine.name].user_pool_client_id: machine.team
            for machine in stage.machine_clients
            if machine.team is not None
        }
        """Client ids of the machines that act for a team, and its name."""
        # Client credentials are exchanged at the pool's domain. Prefixes are unique in a region, hence the beginning of
        # the stack's own id: the account's would publish it.
        stack_id = Fn.select(2, Fn.split("/", Stack.of(self).stack_id))
        unique = Fn.select(0, Fn.split("-", stack_id))
        self.domain = self.pool.add_domain(
            "Domain",
            cognito_domain=cognito.CognitoDomainOptions(domain_prefix=f"gnomon-{stage.name}-{unique}"),
        )

    @property
    def issuer(self) -> str:
        """The tokens' `iss`. Written out, because emulators lack the pool's ProviderURL attribute."""
        return f"https://cognito-idp.{Stack.of(self).region}.amazonaws.com/{self.pool.user_pool_id}"
