"""How the gradients of workers come together. Read `gate`, `histories`, `sharding`, `cost`."""
