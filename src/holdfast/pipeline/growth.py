"""`max_shards` that a plan chooses: of which operators, and a pipeline as if they declared it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from holdfast.deployment.blocks import check_max_shards
from holdfast.errors import BadInputError
from holdfast.pipeline.api import Pipeline
from holdfast.pipeline.operators import PipelineOperator
from holdfast.pipeline.paths import hot_path_of, paths_of

DECLARED = "the pipeline declares it"


def fixed_shards(pipeline: Pipeline) -> dict[str, tuple[int, str]]:
    """Operators for which no plan chooses: what they have, and why."""
    found = {}
    for operator in pipeline.operators:
        why = _fixed(operator)
        if operator.kind != "sink" and why:
            found[operator.name] = (operator.max_shards or 1, why)
    return found


def _fixed(operator: PipelineOperator) -> str:
    if operator.max_shards is not None:
        return DECLARED
    if operator.kind == "source":
        return "which rows a source makes depends on it, so the pipeline declares it"
    if paths_of(operator) is not None or hot_path_of(operator):
        return "paths have one shape"
    return "" if operator.key else "it has no key"


def with_max_shards(pipeline: Pipeline, chosen: Mapping[str, int]) -> Pipeline:
    """The pipeline as if operators had declared what a plan chose for them.

    What they declare themselves counts; a plan that says otherwise is one of another pipeline.
    """
    fixed = fixed_shards(pipeline)
    for name, number in chosen.items():
        check_max_shards(number, name)
        declared = pipeline.operator(name).max_shards
        if declared is not None and declared != number:
            raise BadInputError(
                f"declares max_shards={declared}, and the plan says {number}",
                where=name,
                hint="plan again, or leave one of them out",
            )
        if declared is None and number > 1 and name in fixed:
            raise BadInputError(
                f"the plan says max_shards={number}, and {fixed[name][1]}",
                where=name,
                hint="plan again",
            )
    more = {name: number for name, number in chosen.items() if number > 1}
    if not more:
        return pipeline

    def change(operator: PipelineOperator) -> PipelineOperator:
        return replace(operator, max_shards=more.get(operator.name, operator.max_shards))

    return pipeline.replaced(change)
