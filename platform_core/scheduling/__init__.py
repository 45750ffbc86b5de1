"""The scheduler: one pure planner, `engine.plan(snapshot, policy)`, called by production and by the simulator.

Reading order:

1. `decisions`, `policy`: what a round returns, what an operator chooses. `estimates`, `restarts`: run times, costs.
2. `ordering/`: one ordering policy per file; each gives every job a sort key.
3. `placement/`: nodes as bit sets, and the search for the nodes of one gang.
4. `reservations/`: nodes and quota reserved for jobs that cannot start yet; others are backfilled around them.
5. `state/`: what a round has used so far (`round_state`), and the same as if some jobs had stopped (`what_if`).
6. `preemption/`: eviction and migration, reclaiming of lent GPUs, elastic jobs.
7. `explain/`: the wait reason of every job that does not start.
8. `engine`: the round itself.
9. `forecast/`: rounds played into the future: start times, what would help a waiting job, the next migration.
   `metrics/`: fragmentation and waits by size, for reports.

A folder imports only from those before it.
"""
