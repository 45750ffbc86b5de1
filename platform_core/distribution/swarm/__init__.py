"""What a node requests from its neighbours. Read `runs`, `requests`, `endgame`."""
