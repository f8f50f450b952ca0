import schemathesis
from hypothesis import HealthCheck, settings
from support.sizes import sized

from cpor.serve.http.http_app import create_app

EXAMPLES = sized(8, 25)
"""Of each operation."""

checks = schemathesis.checks
schema = schemathesis.openapi.from_dict(create_app().openapi())


# A run starts a simulator; runs have tests of their own.
@schema.exclude(method="POST", path="/v1/runs").parametrize()
@settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_replies_are_as_described_and_none_is_a_fault(case, service):
    case.call_and_validate(
        base_url=service,
        checks=[
            checks.not_a_server_error,
            checks.status_code_conformance,
            checks.content_type_conformance,
            checks.response_schema_conformance,
        ],
        timeout=60,
    )
