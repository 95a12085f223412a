import pytest

from gnomon.local.certificates import node_options, trusting


def test_tools_trust_what_the_user_named() -> None:
    told = trusting({"SSL_CERT_FILE": "/company.pem", "PIP_CERT": "/pip.pem"})

    assert told["PIP_CERT"] == "/pip.pem"
    assert told["NODE_EXTRA_CA_CERTS"] == "/company.pem"
    assert told["UV_SYSTEM_CERTS"] == "true"


def test_a_mirror_of_pip_serves_uv_too() -> None:
    assert trusting({"PIP_INDEX_URL": "https://mirror/simple"})["UV_DEFAULT_INDEX"] == "https://mirror/simple"
    assert trusting({"PIP_INDEX_URL": "https://a", "UV_DEFAULT_INDEX": "https://b"})["UV_DEFAULT_INDEX"] == "https://b"
    assert "UV_DEFAULT_INDEX" not in trusting({})


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ((22, 14, 0), "--max-old-space-size=900"),
        ((22, 15, 0), "--max-old-space-size=900 --use-system-ca"),
        ((23, 7, 0), "--max-old-space-size=900"),
        ((23, 8, 0), "--max-old-space-size=900 --use-system-ca"),
        ((24, 1, 0), "--max-old-space-size=900 --use-system-ca"),
    ],
)
def test_node_gets_the_option_only_where_it_knows_it(version: tuple[int, int, int], expected: str) -> None:
    assert node_options("--max-old-space-size=900", version) == expected
    assert node_options(expected, version) == expected
