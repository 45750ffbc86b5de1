"""The program that runs on each node. It imports neither Django nor the webapp."""
