"""What the planner says of a job file."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.jobs.reader import SpecError
from platform_core.jobs.spec import JobSpec, parse
from platform_core.parallelism.calibration import Calibration
from platform_core.parallelism.hardware import Cluster, gpu_of
from platform_core.parallelism.job_plan import estimate, layout_of, predict
from platform_core.units import MICRO_DOLLARS

LLAMA_8B = {
    "layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "ffn": 14336, "vocabulary": 128256, "sequence": 8192,
    "global_batch": 64, "tokens_billions": 1, "recompute": "full",
}  # fmt: skip
GPT_SMALL = {"layers": 12, "hidden": 768, "heads": 12, "sequence": 1024, "global_batch": 64}


def job(gpus: int = 8, transformer: dict[str, Any] | None = None, **fields: Any) -> JobSpec:
    named = {"name": "a", "team": "vision", "command": "python train.py", "gpu_type": "a100-80gb"}
    return parse({**named, "num_gpus": gpus, "transformer": transformer or {}, **fields})


def cluster(gpus: int = 8) -> Cluster:
    return Cluster(gpu_of("a100-80gb"), 1, 8, 100e9).holding(gpus)


def said(spec: JobSpec, price: int = 0, calibration: Calibration | None = None) -> tuple[bool, str, str]:
    found = estimate(spec, cluster(spec.num_gpus), price, calibration or Calibration())
    assert found is not None
    return found.fits, found.sentence, found.remedy


def test_the_layout_of_the_job_file_is_estimated_with_days_and_cost() -> None:
    fits, sentence, _ = said(job(8, LLAMA_8B, parallel={"fsdp": 8}), 2 * MICRO_DOLLARS)
    assert fits
    assert sentence.startswith("fits on 8 x a100-80gb with FSDP 8, full recompute; ")
    assert " h " in sentence
    assert sentence.partition("$")[2].replace(",", "").replace(".", "").isdigit()


def test_without_a_layout_the_fastest_one_is_named() -> None:
    fits, sentence, _ = said(job(8, LLAMA_8B))
    assert fits is None
    assert sentence.startswith("may not fit on 8 x a100-80gb with FSDP 8, which needs ")
    assert "$" not in sentence


def test_a_layout_fits_only_where_the_upper_end_of_its_band_does() -> None:
    verdicts = {}
    for layers in range(16, 160, 4):
        fits, sentence, _ = said(job(8, {**LLAMA_8B, "layers": layers}, parallel={"fsdp": 8}))
        verdicts[layers] = fits
        assert sentence.split(" on ")[0] == {True: "fits", None: "may not fit", False: "does not fit"}[fits]
    order = list(dict.fromkeys(verdicts.values()))
    assert order == [True, None, False]


def test_without_tokens_a_step_and_the_memory_are_said() -> None:
    _, sentence, _ = said(job(1, GPT_SMALL))
    assert " a step, " in sentence
    assert sentence.endswith(" a GPU")


def test_a_layout_that_does_not_fit_is_told_why_and_what_would() -> None:
    fits, sentence, remedy = said(job(8, {**LLAMA_8B, "recompute": "none"}, parallel={"dp": 8}))
    assert not fits
    assert sentence.startswith("does not fit on 8 x a100-80gb with DDP 8: needs ")
    assert " GiB of 80" in sentence
    assert remedy.startswith("FSDP 8, micro-batches of 1 ")
    assert "would fit" in remedy


def test_a_model_that_fits_in_no_layout_is_told_how_many_gpus_would_do() -> None:
    large = {**LLAMA_8B, "layers": 80, "hidden": 8192, "heads": 64, "ffn": 28672}
    fits, sentence, remedy = said(job(8, large))
    assert not fits
    assert sentence.startswith("does not fit on 8 x a100-80gb: needs ")
    assert remedy.startswith("16 GPUs would do, with ")


def test_a_layout_that_the_model_cannot_be_divided_by_says_so() -> None:
    fits, sentence, _ = said(job(8, {**GPT_SMALL, "global_batch": 64}, parallel={"tp": 8}))
    assert not fits
    assert sentence == "cannot run on 8 x a100-80gb: 12 heads cannot be divided by 8 tensor ranks"


def test_the_constant_of_the_cluster_moves_the_estimate_and_not_the_prediction() -> None:
    spec = job(8, GPT_SMALL, parallel={"dp": 8})
    plain = estimate(spec, cluster(), 0, Calibration())
    slow = estimate(spec, cluster(), 0, Calibration(2.0, 0.9, 1.1, 30))
    predicted = predict(spec, 8, cluster())
    assert plain is not None
    assert slow is not None
    assert plain.plan is not None
    assert slow.plan is not None
    assert predicted is not None
    assert slow.plan.step.total == pytest.approx(2 * plain.plan.step.total)
    assert predicted.step.total == pytest.approx(plain.plan.step.total)


def test_nothing_is_said_without_a_shape_and_nothing_predicted_without_a_layout() -> None:
    assert estimate(job(), cluster(), 0, Calibration()) is None
    assert predict(job(), 8, cluster()) is None
    assert predict(job(8, GPT_SMALL), 8, cluster()) is None
    assert predict(job(1, GPT_SMALL), 1, cluster(1)) is not None
    assert predict(job(8, GPT_SMALL, parallel={"tp": 8}), 8, cluster()) is None


@given(
    st.sampled_from([1, 2, 4]), st.sampled_from([1, 2]), st.sampled_from([1, 2]), st.sampled_from([1, 2, 3])
)
def test_the_layout_of_a_job_takes_its_gpus_with_every_number_of_copies(
    fsdp: int, tp: int, pp: int, copies: int
) -> None:
    gpus = fsdp * tp * pp * copies
    shape = {**GPT_SMALL, "global_batch": 48}
    spec = job(gpus, shape, parallel={"fsdp": fsdp, "tp": tp, "pp": pp, "dp": copies})
    layout = layout_of(spec, gpus)
    assert layout is None or layout.gpus == gpus
    if layout is not None:
        again = layout.parallel.sized(gpus)
        assert (again.fsdp, again.tp, again.pp, again.dp) == (fsdp, tp, pp, copies)


@pytest.mark.parametrize(
    ("transformer", "sentence"),
    [
        ({"layers": 2}, "transformer.hidden is missing; an estimate needs layers"),
        ({**GPT_SMALL, "sequence": 0}, "transformer.sequence is missing"),
        ({**GPT_SMALL, "heads": 7}, "transformer.hidden is 768, which 7 heads do not divide"),
        ({**GPT_SMALL, "kv_heads": 5}, "transformer.kv_heads is 5, which does not divide the 12 heads"),
        ({**GPT_SMALL, "experts": 4}, "transformer.experts_per_token is 0; a token passes 1 to 4 experts"),
        ({**GPT_SMALL, "global_batch": 12}, "transformer.global_batch is 12, which 8 data ranks"),
        ({**GPT_SMALL, "recompute": "some"}, "transformer.recompute is 'some'"),
    ],
)
def test_a_shape_that_cannot_be_planned_is_refused_by_its_field(
    transformer: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(SpecError) as refused:
        job(8, transformer, parallel={"dp": 8})
    assert sentence in "; ".join(problem.sentence for problem in refused.value.problems)
