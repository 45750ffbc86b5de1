"""How the coordinator finds slow nodes. Read `windows`, `pace` (slow receivers), `senders` (slow senders)."""
