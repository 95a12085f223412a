"""What the stack tells the outside. Names are a contract: the client, the tests and the documentation read them."""

from collections.abc import Mapping

from aws_cdk import CfnOutput, Stack

DESCRIPTIONS: Mapping[str, str] = {
    "ApiId": "Id of the HTTP API",
    "ApiUrl": "Where the API is",
    "UserPoolId": "Cognito user pool",
    "UserClientId": "Client id of people (password and SRP sign-in)",
    "MachineClientId": "Client id of the first machine in the stage's list, - where it names none",
    "MachineClientIds": "Client ids of machines (client credentials) by their name in the stage, as JSON",
    "TokenUrl": "Where machines exchange their client credentials for tokens",
    "JobsTable": "Table of jobs",
    "ExecutionsTable": "Table of executions",
    "IdempotencyTable": "Table of idempotency keys",
    "CoordinationTable": "Table of limits and owners",
    "RunQueueHighUrl": "Run queue of jobs of high priority",
    "RunQueueNormalUrl": "Run queue of jobs of normal priority",
    "RunQueueLowUrl": "Run queue of jobs of low priority",
    "HintsDlqUrl": "Hints that were received five times in vain",
    "DeadLetterQueueUrl": "Announcements of runs that failed for good",
    "UnreadableQueueUrl": "Stream records that could not be read",
    "EventBusName": "Event bus of the lifecycle events",
    "ScheduleGroup": "EventBridge Scheduler group of one-time hints",
    "StateMachineArn": "State machine that runs long attempts",
    "ApiFunction": "Function of the HTTP API",
    "PollFunction": "Function that answers workers' polls",
    "ExecutorFunction": "Function that starts and ends runs",
    "StepsFunction": "Function behind the state machine's states",
    "SweepFunction": "Function that looks after lost hints",
    "JobsFunction": "Function that runs the registered Python handlers",
    "DeadLettersFunction": "Function that announces dead letters",
    "LifecycleFunction": "Function that puts lifecycle events on the bus",
}


def declare(stack: Stack, values: Mapping[str, str]) -> None:
    """Add the outputs to the stack; raises ValueError unless there is a value for each name and no other."""
    if values.keys() != DESCRIPTIONS.keys():
        raise ValueError(f"outputs differ from their contract: {sorted(values.keys() ^ DESCRIPTIONS.keys())}")
    for name, value in values.items():
        CfnOutput(stack, name, value=value, description=DESCRIPTIONS[name])
