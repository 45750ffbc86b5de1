"""Wait reasons: why each job that did not start waits. Read `holders`, `binding`, `wait_reasons`."""
