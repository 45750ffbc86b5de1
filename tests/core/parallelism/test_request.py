"""Questions to the planner, and its answers in words."""

from typing import Any

import pytest

from platform_core.jobs.reader import SpecError
from platform_core.parallelism.advice import advise, scale_counts, scale_point, with_efficiency
from platform_core.parallelism.request import PlanRequest, parse

LLAMA_8B: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "max_position_embeddings": 8192, "tie_word_embeddings": False,
}  # fmt: skip
SMALL = {"layers": 12, "hidden": 768, "heads": 12, "vocabulary": 50257}


def asked(**changes: Any) -> PlanRequest:
    return parse({"config": LLAMA_8B, "gpus": 64, "global_batch": 256, **changes})


def refused(mapping: object) -> dict[str, str]:
    with pytest.raises(SpecError) as refusal:
        parse(mapping)
    assert refusal.value.code == "plan_invalid"
    return {problem.field: problem.sentence for problem in refusal.value.problems}


def test_a_hugging_face_configuration_is_a_model() -> None:
    assert (asked().shape().parameters, asked().sequence) == (8_030_261_248, 8_192)


def test_a_shorter_sequence_than_the_longest_can_be_asked_for() -> None:
    assert asked(sequence=4_096).shape().sequence == 4_096


def test_the_configuration_and_its_numbers_are_the_same_question() -> None:
    numbers = {"layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "ffn": 14336, "vocabulary": 128256}
    assert parse({"model": numbers, "sequence": 8_192, "gpus": 64, "global_batch": 256}) == asked()


@pytest.mark.parametrize(
    ("mapping", "field", "words"),
    [
        ([], "", "mapping of fields"),
        ({"model": SMALL, "gpus": 0}, "gpus", "gpus"),
        ({"model": SMALL, "gpus": 12}, "gpus", "ask for 8 or 16"),
        ({"model": SMALL, "gpu_type": "tpu-v5"}, "gpu_type", "not a known GPU; known are"),
        ({"model": {**SMALL, "heads": 7}}, "model", "not a multiple of 7 heads"),
        ({"model": SMALL, "config": LLAMA_8B}, "config", "keep one of the two"),
        ({"config": {"model_type": "llama"}}, "config", "has no hidden_size"),
        ({"config": "llama"}, "config", "the content of a config.json"),
        ({"model": SMALL, "gpuz": 8}, "gpuz", "did you mean gpus?"),
        ({"model": {**SMALL, "layers": 1e99}}, "model.layers", "layers"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused_with_its_field(
    mapping: object, field: str, words: str
) -> None:
    assert words in refused(mapping)[field]


def test_the_answer_names_the_layout_the_pace_and_the_cost() -> None:
    found = advise(asked(tokens_billions=1000), 2_500_000)
    assert found.sentence.startswith("It may not fit on 64 GPUs of h100-80gb with DP 64 (ZeRO 2): ")
    assert "68.6 GiB (51.4 GiB to 80.9 GiB) a GPU" in found.sentence
    assert "FSDP 64 with micro-batches of 1 fits" in found.sentence
    best = found.plans[0]
    assert best.run is not None
    assert best.run.steps == -(-(10**12) // (256 * 8_192))
    # 64 GPUs at 2.50 dollars an hour
    hours = best.run.duration_ms / 3_600_000
    assert best.run.cost_micro_dollars == pytest.approx(hours * 64 * 2_500_000, rel=1e-6)


def test_plans_are_ranked_by_time_and_fit() -> None:
    plans = [ranked.plan for ranked in advise(asked()).plans]
    assert [plan.step.total for plan in plans] == sorted(plan.step.total for plan in plans)
    assert all(plan.memory.total <= 80 * 2**30 for plan in plans)


def test_what_does_not_fit_says_what_it_needs() -> None:
    found = advise(parse({"config": {**LLAMA_8B, "num_hidden_layers": 800}, "gpus": 1, "gpus_per_node": 1}))
    assert (found.plans, found.sentence) == ((), "It does not fit on 1 GPU of h100-80gb.")
    assert "GiB of 80" in found.refusal


def test_more_gpus_are_faster_and_none_is_better_than_the_best() -> None:
    request = asked(global_batch=4_096)
    planned = [scale_point(request, gpus) for gpus in scale_counts(request)]
    points = with_efficiency([point for point in planned if point])
    assert [point.gpus for point in points] == [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096]
    assert [point.tokens_per_second for point in points] == sorted(
        point.tokens_per_second for point in points
    )
    assert max(point.efficiency for point in points) == 1.0
