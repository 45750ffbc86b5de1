"""What is delivered. Read `tiling`, `manifest`, `address`, `cache`."""
