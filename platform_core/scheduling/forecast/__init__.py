"""Rounds played into the future. Read `start_times`, `calibration`, `changes`, `next_migration`."""
