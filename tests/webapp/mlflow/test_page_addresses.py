"""What MLflow's own page asks for beside the API: GraphQL, datasets, small uploads, prompts, unknown places."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.webapp.mlflow.conftest import Mlflow

RUN = """query GetRun($data: MlflowGetRunInput!) @component(name: "MLflow.ExperimentRunTracking") {
  mlflowGetRun(input: $data) { apiError { code } run {
    info { runName status endTime } experiment { name } modelVersions { name }
    data { metrics { key value step } params { key value } } inputs { datasetInputs { dataset { name } } }
  } } }"""
PROMPT = [{"key": "mlflow.prompt.is_prompt", "value": "true"}]


def ask(alice: Mlflow, query: str, **variables: Any) -> dict[str, Any]:
    return alice.done("POST", "/graphql", {"query": query, "variables": variables})


def test_a_run_is_read_by_the_query_of_the_page(alice: Mlflow, new_run: Callable[..., str]) -> None:
    run_id = new_run(run_name="one")
    metrics = [
        {"key": key, "value": value, "timestamp": 1, "step": 2} for key, value in (("a", 0.5), ("b", "NaN"))
    ]
    alice.done("POST", "runs/log-batch", {"run_id": run_id, "metrics": metrics})
    run = ask(alice, RUN, data={"runId": run_id})["data"]["mlflowGetRun"]["run"]
    assert run["info"] == {"runName": "one", "status": "RUNNING", "endTime": "0"}
    assert (run["experiment"], run["modelVersions"]) == ({"name": "wine"}, [])
    assert run["inputs"] == {"datasetInputs": []}
    values = {metric["key"]: (metric["value"], metric["step"]) for metric in run["data"]["metrics"]}
    assert (values, run["data"]["params"]) == ({"a": (0.5, "2"), "b": (None, "2")}, [])


def test_runs_experiments_and_datasets_are_found_by_their_queries(
    alice: Mlflow, experiment: str, run_id: str
) -> None:
    dataset = {"dataset": {"name": "iris", "digest": "d", "source_type": "local", "source": "s"},
               "tags": [{"key": "mlflow.data.context", "value": "train"}]}  # fmt: skip
    alice.done("POST", "runs/log-inputs", {"run_id": run_id, "datasets": [dataset]})
    search = "query S($d: MlflowSearchRunsInput) { mlflowSearchRuns(input: $d) { runs { info { runId } } } }"
    found = ask(alice, search, d={"experimentIds": [experiment]})["data"]["mlflowSearchRuns"]["runs"]
    assert found == [{"info": {"runId": run_id}}]
    summaries = [{"experiment_id": experiment, "name": "iris", "digest": "d", "context": "train"}]
    asked = {"experiment_ids": [experiment]}
    assert alice.done("POST", "/ajax-api/2.0/mlflow/experiments/search-datasets", asked) == {
        "dataset_summaries": summaries
    }
    wanted = "mlflowSearchDatasets(input: $d) { datasetSummaries { name } }"
    query = f"mutation M($d: MlflowSearchDatasetsInput) {{ {wanted} }}"
    answer = ask(alice, query, d={"experimentIds": [experiment]})["data"]["mlflowSearchDatasets"]
    assert answer == {"datasetSummaries": [{"name": "iris"}]}


def test_an_error_of_a_query_is_a_sentence_without_data(alice: Mlflow) -> None:
    answer = ask(alice, RUN, data={"runId": "0" * 32})
    assert answer["errors"] == [f"Run with id={'0' * 32} not found"]


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("{ nothing { a } }", "Cannot query field 'nothing'"),
        (
            "{" + " ".join(f'a{n}: test(inputString: "1") {{ output }}' for n in range(11)) + "}",
            "root fields",
        ),
        ("{ ...F } fragment F on Query { ...F }", "Cannot spread fragment"),
        ("{ a " * 40 + "}" * 40, "maximum depth"),
    ],
)
def test_a_query_that_is_wrong_or_too_much_work_is_not_executed(
    alice: Mlflow, query: str, sentence: str
) -> None:
    answer = ask(alice, query)
    assert answer["data"] is None
    assert sentence in answer["errors"][0]


@pytest.mark.parametrize("body", ["{", {}, {"query": 5}, {"query": "{"}, {"query": "{ a " * 5_000}, "[]"])
def test_a_body_without_a_query_is_refused(alice: Mlflow, body: Any) -> None:
    assert alice.refused("POST", "/graphql", body)[:2] == (400, "INVALID_PARAMETER_VALUE")


def test_graphql_asks_for_a_token(db: None) -> None:
    assert Mlflow("").refused("POST", "/graphql", {"query": "{ test { output } }"})[:2] == (
        401,
        "UNAUTHENTICATED",
    )


def test_a_small_file_is_uploaded_and_read_back(alice: Mlflow, run_id: str) -> None:
    address = "/ajax-api/2.0/mlflow/upload-artifact"
    assert alice.done("POST", f"{address}?run_uuid={run_id}&path=a/b.txt", b"hello") == {}
    read: Any = alice.ask("GET", "/get-artifact", {"run_id": run_id, "path": "a/b.txt"})
    assert b"".join(read) == b"hello"
    assert alice.refused("POST", f"{address}?run_uuid={run_id}", b"x")[2] == "Request must specify path."
    assert alice.refused("POST", f"{address}?path=x", b"x")[2] == "Request must specify run_uuid."
    assert (
        alice.refused("POST", f"{address}?run_uuid={run_id}&path=x", b"")[2] == "Request must specify data."
    )


def test_a_prompt_is_registered_as_its_client_does(alice: Mlflow) -> None:
    alice.done("POST", "registered-models/create", {"name": "greeting", "tags": PROMPT})
    body = {
        "name": "greeting",
        "source": "dummy-source",
        "tags": [*PROMPT, {"key": "mlflow.prompt.text", "value": "Hi"}],
    }
    version = alice.done("POST", "model-versions/create", body)["model_version"]
    assert (version["version"], version["source"], version["status"]) == ("1", "dummy-source", "READY")
    refusal = "Invalid prompt source: 's3://b'. Prompt sources must use an MLflow placeholder."
    assert alice.refused("POST", "model-versions/create", {**body, "source": "s3://b"})[2] == refusal
    assert alice.refused("POST", "registered-models/create", {"name": "greeting", "tags": PROMPT})[2] == (
        "Prompt (name=greeting) already exists."
    )
    taken = alice.refused("POST", "registered-models/create", {"name": "greeting"})
    assert "the name is already taken by a prompt" in taken[2]


@pytest.mark.parametrize(
    "address",
    ["/ajax-api/2.0/mlflow/none", "/ajax-api/none", "/api/2.0/none", "/api/4.0/x", "/ajax-api/3.0/mlflow/ui-telemetry",
     "/ajax-api/2.0/mlflow/gateway-proxy", "/ajax-api/2.0/mlflow/get-trace-artifact", "/model-versions/none"],
)  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_unknown_address_below_the_door_is_a_json_error(alice: Mlflow, address: str, method: str) -> None:
    assert alice.refused(method, address)[:2] == (404, "ENDPOINT_NOT_FOUND")
