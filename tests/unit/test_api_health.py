from __future__ import annotations

import pytest

from tests.api_client import Api, sample_event


def test_health_shows_every_component() -> None:
    api = Api()
    assert api.answer(sample_event("api-health")).json == {
        "status": "ok",
        "stage": "test",
        "version": "0.1.0",
        "components": {
            "jobs": {"status": "ok", "latencyMs": 0.0},
            "history": {"status": "ok", "latencyMs": 0.0},
        },
    }


def test_a_component_that_does_not_answer_is_shown_without_its_secrets() -> None:
    def broken() -> None:
        raise OSError("https://key:secret@dynamodb")

    api = Api(probes={"jobs": lambda: None, "queues": broken})
    health = api.get("/health")
    assert (health.status, health.json["status"]) == (503, "down")
    assert health.json["components"]["queues"]["status"] == "down"
    assert health.json["components"]["jobs"]["status"] == "ok"
    assert "secret" not in (health.text or "")
    assert (api.get("/ready").status, api.get("/live").status, api.get("/startup").status) == (503, 200, 200)


def test_a_finding_is_kept_for_some_seconds() -> None:
    asked: list[float] = []
    api = Api(probes={"jobs": lambda: asked.append(api.clock.time)})
    for _ in range(10):
        api.get("/health")
        api.get("/ready")
    assert len(asked) == 1
    api.clock.advance(5)
    api.get("/ready")
    assert len(asked) == 2


@pytest.mark.parametrize("path", ["/health", "/ready", "/live", "/startup", "/openapi.json", "/docs"])
def test_no_token_is_needed(path: str) -> None:
    event = sample_event("api-health")
    event["rawPath"] = event["requestContext"]["http"]["path"] = path
    assert Api().answer(event).status == 200


def test_latency_is_measured() -> None:
    api = Api(probes={"jobs": lambda: api.clock.advance(0.0123)})
    assert api.get("/health").json["components"]["jobs"]["latencyMs"] == pytest.approx(12.3)


EMULATOR = "http://{host}/_aws/execute-api/{api}/{stage}"


@pytest.mark.parametrize(
    ("address", "domain", "host", "server"),
    [
        (
            "https://{domain}",
            "a1.execute-api.eu-central-1.amazonaws.com",
            "a1.execute-api.eu-central-1.amazonaws.com",
            "",
        ),
        ("https://{domain}", "jobs.example.com", "jobs.example.com", "https://jobs.example.com"),
        (EMULATOR, "a1.execute-api.localhost", "127.0.0.1:4566", "http://127.0.0.1:4566/_aws/execute-api/a1/$default"),
        (EMULATOR, "a1.execute-api.localhost", "[::1]:4700", "http://[::1]:4700/_aws/execute-api/a1/$default"),
    ],
)
def test_the_document_names_the_address_it_was_asked_at(address: str, domain: str, host: str, server: str) -> None:
    api = Api(address=address)
    event = sample_event("api-health")
    event["rawPath"] = event["requestContext"]["http"]["path"] = "/openapi.json"
    event["requestContext"] |= {"domainName": domain, "apiId": "a1"}
    event["headers"]["host"] = host

    first, second = api.answer(event), api.answer(event)

    assert first.json["servers"] == [{"url": server or f"https://{domain}"}]
    assert first.text == second.text


def test_a_host_that_breaks_json_breaks_nothing() -> None:
    event = sample_event("api-health")
    event["rawPath"] = event["requestContext"]["http"]["path"] = "/openapi.json"
    event["headers"]["host"] = 'a"}],"x":[{"{0}'
    assert Api(address=EMULATOR).answer(event).json["servers"][0]["url"].startswith('http://a"}],"x":[{"{0}/_aws/')
