"""Whatever happens, in whatever order and however often: no trial is submitted twice, and none is lost."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from platform_core.errors import IllegalTransition
from platform_core.sweeps import states as ev
from platform_core.sweeps.definition import Budget
from platform_core.sweeps.states import SweepState, Trial, TrialState
from platform_core.sweeps.transitions import advance, owed
from tests.core.sweeps.situations import sweep

LIVING = {"waiting", "running"}
OUTCOMES = [TrialState.SUCCEEDED, TrialState.FAILED, TrialState.CANCELLED]


class AnyHistory(RuleBasedStateMachine):
    """The sweep is what the database keeps. Jobs live in a world of their own: a submission under a key that is known
    gives the same job. The shell may die between a submission and its record, and news may be late or repeated."""

    def __init__(self) -> None:
        super().__init__()
        stopping = {"rule": "asha", "min_steps": 1, "eta": 2}
        self.sweep = sweep(budget={"trials": 5, "gpu_hours": 1}, early_stopping=stopping, max_failures=2)
        self.jobs: dict[int, str] = {}  # number of the trial → state of its job
        self.submissions: dict[int, int] = {}
        self.past: list[ev.SweepEvent] = []
        self.now = 0

    def happen(self, event: ev.SweepEvent) -> None:
        self.past.append(event)
        before = self.sweep
        try:
            self.sweep = advance(self.sweep, event).sweep
        except IllegalTransition:
            return
        assert (self.sweep == before) is (self.sweep.version == before.version)

    def time(self) -> int:
        self.now += 1
        return self.now

    @precondition(lambda self: len(self.sweep.trials) < 5)
    @rule(lr=st.floats(1e-4, 1e-1))
    def a_setting_is_proposed(self, lr: float) -> None:
        """A program outside may ask for more trials than run at once."""
        number = len(self.sweep.trials) + 1
        self.happen(ev.Proposed(at_ms=self.time(), number=number, parameters=(("lr", lr),)))

    @rule(dies=st.booleans())
    def the_shell_does_what_is_owed(self, dies: bool) -> None:
        for effect in owed(self.sweep):
            number = effect.trial.number
            if isinstance(effect, ev.Stop):
                if self.jobs[number] in LIVING:
                    self.jobs[number] = "stopping"
                continue
            self.jobs.setdefault(number, "waiting")
            if dies:
                self.recover(number)
                return
            self.happen(ev.TrialSubmitted(at_ms=self.time(), number=number, job=f"job-{number}"))

    def recover(self, number: int) -> None:
        """The next round submits under the same key, which is the same job, and this time keeps it."""
        self.happen(ev.TrialSubmitted(at_ms=self.time(), number=number, job=f"job-{number}"))

    @rule(number=st.integers(1, 5))
    def a_job_starts(self, number: int) -> None:
        if self.jobs.get(number) == "waiting":
            self.jobs[number] = "running"
            self.happen(ev.TrialStarted(at_ms=self.time(), number=number))

    @rule(number=st.integers(1, 5), value=st.floats(0, 10) | st.just(float("nan")), step=st.integers(0, 3))
    def a_job_reports(self, number: int, value: float, step: int) -> None:
        if self.jobs.get(number) in {"running", "stopping"}:
            self.happen(ev.TrialReported(at_ms=self.time(), number=number, reports=((2**step, value),)))

    @rule(number=st.integers(1, 5), outcome=st.sampled_from(OUTCOMES), value=st.none() | st.floats(0, 10))
    def a_job_ends(self, number: int, outcome: TrialState, value: float | None) -> None:
        if self.jobs.get(number) in {"waiting", "running", "stopping"}:
            self.jobs[number] = "ended"
            self.happen(ev.TrialEnded(at_ms=self.time(), number=number, outcome=outcome, value=value))

    @precondition(lambda self: self.past)
    @rule(data=st.data())
    def old_news_arrives_again(self, data: st.DataObject) -> None:
        trial_news = [event for event in self.past if isinstance(event, ev.TrialEvent)]
        if trial_news:
            self.happen(data.draw(st.sampled_from(trial_news)))

    @rule(gpu_ms=st.integers(0, 4_000_000))
    def time_passes(self, gpu_ms: int) -> None:
        self.happen(ev.TimePassed(at_ms=self.time(), gpu_ms=gpu_ms, micro_dollars=0))

    @rule()
    def a_person_pauses(self) -> None:
        self.happen(ev.PauseRequested(at_ms=self.time(), actor="user:alice"))

    @rule()
    def a_person_resumes(self) -> None:
        self.happen(ev.ResumeRequested(at_ms=self.time()))

    @rule(trials=st.integers(1, 5), hours=st.integers(1, 3))
    def a_person_changes_the_budget(self, trials: int, hours: int) -> None:
        self.happen(ev.BudgetChanged(at_ms=self.time(), budget=Budget(trials, hours * 3_600_000)))

    @rule(number=st.integers(1, 5))
    def a_submission_is_refused(self, number: int) -> None:
        if number not in self.jobs:
            self.happen(ev.TrialRefused(at_ms=self.time(), number=number, why="no quota"))

    @precondition(lambda self: len(self.past) > 12)
    @rule()
    def a_person_cancels(self) -> None:
        self.happen(ev.CancelRequested(at_ms=self.time(), actor="user:alice"))

    @invariant()
    def no_job_is_forgotten(self) -> None:
        """Each job in the world is that of its trial, and a trial without a living job has no job that lives."""
        for number, state in self.jobs.items():
            trial = self.sweep.trials[number - 1]
            assert trial.job == f"job-{number}"
            if trial.settled:
                assert state == "ended"
            elif trial.ended and state in LIVING:
                assert ev.Stop(trial) in owed(self.sweep)

    @invariant()
    def numbers_count_up_and_jobs_are_one_each(self) -> None:
        assert [trial.number for trial in self.sweep.trials] == list(range(1, len(self.sweep.trials) + 1))
        jobs = [trial.job for trial in self.sweep.trials if trial.job]
        assert len(jobs) == len(set(jobs))

    @invariant()
    def limits_are_kept(self) -> None:
        assert self.sweep.active <= self.sweep.spec.parallel
        assert len(self.sweep.trials) <= 5

    @invariant()
    def a_finished_sweep_has_no_open_trial(self) -> None:
        if self.sweep.state is SweepState.FINISHED:
            assert all(trial.settled and trial.ended for trial in self.sweep.trials)
        if self.sweep.state in (SweepState.CANCELLED, SweepState.OUT_OF_BUDGET):
            assert all(trial.ended for trial in self.sweep.trials)

    def teardown(self) -> None:
        """From anywhere, a sweep that is not cancelled comes to its end once everything goes well."""
        if self.sweep.state is SweepState.CANCELLED:
            return
        self.happen(ev.BudgetChanged(at_ms=self.time(), budget=Budget(5)))
        for _ in range(30):
            if self.sweep.state is SweepState.PAUSED:
                self.happen(ev.ResumeRequested(at_ms=self.time()))
            if self.sweep.room:
                self.a_setting_is_proposed(0.01)
            self.the_shell_does_what_is_owed(False)
            for trial in self.sweep.trials:
                self.end(trial)
        assert self.sweep.state is SweepState.FINISHED
        assert all(trial.ended and trial.settled for trial in self.sweep.trials)
        assert len(self.sweep.trials) == 5

    def end(self, trial: Trial) -> None:
        if self.jobs.get(trial.number) in {"waiting", "running", "stopping"}:
            self.jobs[trial.number] = "ended"
        if trial.job and not trial.settled:
            news = ev.TrialEnded(
                at_ms=self.time(), number=trial.number, outcome=TrialState.SUCCEEDED, value=1.0
            )
            self.happen(news)


AnyHistory.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestAnyHistory = AnyHistory.TestCase
