"""What this machine has and how busy it is."""
