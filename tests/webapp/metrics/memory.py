"""The metric store in memory, in the plainest words: what the real one must answer, and what fast tests may use."""

import math
import struct
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from webapp.metrics.values import Points, Summary

Row = tuple[int, int, float]  # step, time, value


def order(row: Row) -> tuple[int, int, bool, float, float]:
    step, at_ms, value = row
    nan = math.isnan(value)
    return step, at_ms, nan, 0.0 if nan else value, math.copysign(1, value)


def same(row: Row) -> tuple[int, int, bytes]:
    return row[0], row[1], struct.pack("d", math.nan if math.isnan(row[2]) else row[2])


@dataclass
class MemoryStore:
    """Every point that was ever reported, and the rules over all of them."""

    reported: dict[str, dict[str, list[tuple[int, Row]]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    sequences: dict[tuple[str, str], int] = field(default_factory=dict)

    def append(
        self,
        subject: str,
        points: Sequence[Points],
        *,
        attempt: int = 0,
        source: str = "",
        sequence: int | None = None,
    ) -> bool:
        if sequence is not None:
            if self.sequences.get((subject, source), sequence - 1) >= sequence:
                return False
            self.sequences[subject, source] = sequence
        for series in points:
            for step, at_ms, value in zip(series.steps, series.times_ms, series.values, strict=True):
                self.reported[subject][series.key].append((attempt, (int(step), int(at_ms), float(value))))
        return True

    def compact(self, subject: str) -> None:
        pass

    def delete(self, subjects: Iterable[str]) -> None:
        for subject in subjects:
            self.reported.pop(subject, None)
            self.sequences = {key: number for key, number in self.sequences.items() if key[0] != subject}

    def delete_keys(self, subject: str, keys: Iterable[str]) -> None:
        for key in keys:
            self.reported[subject].pop(key, None)

    def rows(self, subject: str, key: str) -> list[Row]:
        reported = self.reported[subject][key] if key in self.reported.get(subject, {}) else []
        newest: dict[int, int] = {}
        for attempt, (step, _, _) in reported:
            newest[step] = max(attempt, newest.get(step, attempt))
        rows = {same(row): row for attempt, row in reported if attempt == newest[row[0]]}
        return sorted(rows.values(), key=order)

    def keys(self, subjects: Iterable[str]) -> list[str]:
        return sorted({key for subject in subjects for key in self.reported.get(subject, {})})

    def summaries(
        self, subjects: Iterable[str], keys: Collection[str] | None = None
    ) -> dict[str, dict[str, Summary]]:
        return {
            subject: {
                key: summary(self.rows(subject, key))
                for key in self.keys([subject])
                if keys is None or key in keys
            }
            for subject in subjects
        }

    def history(
        self, subject: str, key: str, *, after: str | None = None, limit: int = 10_000
    ) -> tuple[Points, str | None]:
        rows, start = self.rows(subject, key), int(after or 0)
        steps, times, values = (
            zip(*rows[start : start + limit], strict=True) if rows[start:] else ((), (), ())
        )
        return Points(key, list(steps), list(values), list(times)), (
            str(start + limit) if start + limit < len(rows) else None
        )


def summary(rows: Sequence[Row]) -> Summary:
    finite = [row for row in rows if math.isfinite(row[2])]
    low = min(finite, key=lambda row: row[2], default=None)
    high = max(finite, key=lambda row: row[2], default=None)
    return Summary(
        count=len(rows),
        non_finite=len(rows) - len(finite),
        first=rows[0][2],
        first_step=rows[0][0],
        last=rows[-1][2],
        last_step=rows[-1][0],
        last_ms=rows[-1][1],
        min=low and low[2],
        min_step=low and low[0],
        max=high and high[2],
        max_step=high and high[0],
    )
