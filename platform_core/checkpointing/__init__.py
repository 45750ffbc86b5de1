"""How often to save, which checkpoint to keep, and which one to restore."""
