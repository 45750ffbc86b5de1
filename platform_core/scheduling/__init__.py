"""Who runs where, and why the others wait: one pure planner, driven by production and the simulator alike."""
