"""GraphQL as the page of MLflow sends it: the answers of the API under the names of its schema."""

import json
import math
import re
import sys
from collections.abc import Mapping
from typing import Any

import graphql as library
from django.http import HttpRequest, HttpResponseBase, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from webapp.mlflow import artifacts, experiments, history, routes, runs, versions
from webapp.mlflow.endpoint import Call, Handler, authenticated, response_of
from webapp.mlflow.errors import invalid
from webapp.mlflow.fields import body_of, parsed
from webapp.mlflow.graphql_schema import SCHEMA

MAX_DEPTH, MAX_SELECTIONS, MAX_ROOT_FIELDS, MAX_ALIASES = 10, 1_000, 10, 10
MAX_TOKENS = 10_000
ROOTS: Mapping[str, Handler] = {
    "mlflowGetExperiment": experiments.get,
    "mlflowGetMetricHistoryBulkInterval": history.bulk_interval,
    "mlflowGetRun": runs.get,
    "mlflowListArtifacts": artifacts.list_of_run,
    "mlflowSearchModelVersions": versions.search,
    "mlflowSearchRuns": runs.search,
    "mlflowSearchDatasets": runs.search_datasets,
}
_FIELDS = {endpoint.handler: endpoint.fields for endpoint in (*routes.TRACKING, *routes.PAGE_ONLY)}
# As protocol messages have a field that was not set.
_UNSET: Mapping[str, Any] = {"String": "", "LongString": 0, "Int": 0, "Float": 0.0, "Boolean": False}


_SCHEMA = library.build_schema(SCHEMA)


@csrf_exempt
def view(request: HttpRequest) -> HttpResponseBase:
    try:
        call = Call(request, authenticated(request), {})
        body = body_of(request) if request.method == "POST" else request.GET.dict()
        return JsonResponse(answer(call, body))
    except Exception as error:
        return response_of(request, error)


def answer(call: Call, body: Mapping[str, Any]) -> dict[str, Any]:
    query, variables, name = body.get("query"), body.get("variables") or {}, body.get("operationName")
    if not isinstance(query, str) or not isinstance(variables, dict):
        raise invalid("A GraphQL request has a query, which is text, and variables, which are an object.")
    try:
        document = library.parse(query, max_tokens=MAX_TOKENS)
        refusal = _refusal(document)
        errors = [library.GraphQLError(refusal)] if refusal else library.validate(_SCHEMA, document)
    except library.GraphQLSyntaxError as error:
        raise invalid(error.message) from None
    except RecursionError:
        raise invalid(f"The query exceeds the maximum depth of {MAX_DEPTH}") from None
    if errors:
        return {"data": None, "errors": [error.message for error in errors]}
    result: Any = library.execute(
        _SCHEMA, document, context_value=call, variable_values=variables,
        operation_name=name if isinstance(name, str) else None, field_resolver=_resolve,
    )  # fmt: skip
    return {
        "data": result.data,
        "errors": [_sentence(call, error) for error in result.errors] if result.errors else None,
    }


def _sentence(call: Call, error: library.GraphQLError) -> str:
    """Of an error of ours as the API words it: nothing private leaks."""
    if error.original_error is None:
        return error.message
    response: Any = response_of(call.request, error.original_error)
    return str(json.loads(response.content)["message"])


def _refusal(document: library.DocumentNode) -> str:
    """Why a query would be too much work; "" for one that is not."""
    fragments = {
        node.name.value: node
        for node in document.definitions
        if isinstance(node, library.FragmentDefinitionNode)
    }
    selections = 0
    for operation in document.definitions:
        if not isinstance(operation, library.OperationDefinitionNode):
            continue
        levels: list[tuple[list[library.SelectionSetNode], int]] = [([operation.selection_set], 1)]
        while levels:
            sets, depth = levels.pop()
            if depth > MAX_DEPTH:
                return f"Query exceeds maximum depth of {MAX_DEPTH}"
            fields = _fields_of(sets, fragments)
            selections += len(fields)
            if selections > MAX_SELECTIONS:
                return f"Query exceeds maximum total selections of {MAX_SELECTIONS}"
            if depth == 1 and len(fields) > MAX_ROOT_FIELDS:
                return _beyond(MAX_ROOT_FIELDS, "root fields", len(fields))
            if (aliases := sum(field.alias is not None for field in fields)) > MAX_ALIASES:
                return _beyond(MAX_ALIASES, "aliases", aliases)
            levels += [([field.selection_set], depth + 1) for field in fields if field.selection_set]
    return ""


def _fields_of(
    sets: list[library.SelectionSetNode], fragments: Mapping[str, library.FragmentDefinitionNode]
) -> list[library.FieldNode]:
    """Of one level, those of its fragments too."""
    fields: list[library.FieldNode] = []
    seen: set[str] = set()
    waiting = [selection for each in sets for selection in each.selections]
    while waiting:
        selection = waiting.pop()
        if isinstance(selection, library.FieldNode):
            fields.append(selection)
        elif isinstance(selection, library.InlineFragmentNode):
            waiting += selection.selection_set.selections
        elif isinstance(selection, library.FragmentSpreadNode) and selection.name.value not in seen:
            seen.add(selection.name.value)
            if fragment := fragments.get(selection.name.value):
                waiting += fragment.selection_set.selections
    return fields


def _beyond(most: int, what: str, count: int) -> str:
    return f"GraphQL queries should have at most {most} {what}, got {count} {what}."


def _resolve(source: Any, info: library.GraphQLResolveInfo, **arguments: Any) -> Any:
    name, call = info.field_name, info.context
    if info.path.prev is None:
        if name in ROOTS:
            return _asked(call, ROOTS[name], arguments.get("input") or {})
        return {"output": arguments.get("inputString")}  # test and testMutation
    if info.parent_type.name == "MlflowRunExtension":
        about = source["info"]
        if name == "experiment":
            return _asked(call, experiments.get, {"experiment_id": about["experiment_id"]})["experiment"]
        if name == "modelVersions":
            wanted = {"filter": f"run_id = '{about['run_id']}'"}
            return _asked(call, versions.search, wanted).get("model_versions", [])
    value = source.get(_snake(name))
    if name == "value" and library.get_named_type(info.return_type).name == "Float":
        return _finite(value)
    if value is None:
        value = _unset(info.return_type, name)
    return str(value) if str(info.return_type) == "LongString" else value


def _asked(call: Call, handler: Handler, given: Mapping[str, Any]) -> Any:
    return handler(Call(call.request, call.actor, parsed(given, _FIELDS[handler])))


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def _finite(value: Any) -> float | None:
    """GraphQL has no NaN and no infinities: MLflow answers null and the greatest numbers."""
    number = float(value or 0)
    return None if math.isnan(number) else max(-sys.float_info.max, min(number, sys.float_info.max))


def _unset(kind: Any, name: str) -> Any:
    if name == "apiError":
        return None
    if library.is_list_type(kind):
        return []
    if library.is_object_type(kind):
        return {}
    return _UNSET.get(kind.name)
