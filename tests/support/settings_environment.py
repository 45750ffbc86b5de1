"""What the settings need besides the addresses of the databases. Nothing here outlives a test session."""

SETTINGS = {
    "TRAINMASTER_SECRET_KEY": "only-for-tests",
    "TRAINMASTER_SECRETS_KEY": "dGVzdC10ZXN0LXRlc3QtdGVzdC10ZXN0LXRlc3QtISE=",
    "TRAINMASTER_BOOTSTRAP_TOKEN": "bootstrap-of-the-tests",
    "TRAINMASTER_GATEWAY_TLS": "0",
    "TRAINMASTER_TENSORBOARDS": "0",
}
