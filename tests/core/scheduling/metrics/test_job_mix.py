from hypothesis import given
from hypothesis import strategies as st

from platform_core.scheduling.metrics.job_mix import Class, mix


def test_each_size_has_its_jobs_its_share_of_the_gpu_time_and_its_run_times():
    assert mix([(1, 10), (1, 30), (1, 20), (4, 15), (500, 0)]) == (
        Class("1", 3, 60, 50.0, 20, 30),
        Class("2 to 8", 1, 60, 50.0, 15, 15),
        Class("over 64", 1, 0, 0.0, 0, 0),
    )
    assert mix([]) == ()


@given(st.lists(st.tuples(st.integers(1, 2000), st.integers(0, 10**9))))
def test_no_job_and_no_gpu_time_is_lost_or_counted_twice(runs: list[tuple[int, int]]):
    classes = mix(runs)
    assert sum(one.jobs for one in classes) == len(runs)
    assert sum(one.gpu_ms for one in classes) == sum(gpus * ms for gpus, ms in runs)
    assert all(one.p50_ms <= one.p95_ms for one in classes)
