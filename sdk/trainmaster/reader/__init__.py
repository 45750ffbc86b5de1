"""What people bring is parsed in a process of its own, which may die: `pool.read` runs a function there."""
