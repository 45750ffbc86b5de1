"""Who receives from whom. Read `routes`, `chain` and the other strategies, `forest`, `bounds`, `estimate`, `repair`."""
