"""Who receives from whom. Read `routes`, the strategies (`sequential` to `mesh`), `forest`, `bounds`, `estimate`, `repair`."""
