"""What attackers did, as tests of the whole kind: bounded in time, against real servers and processes."""

from tests.support import databases

# Before any module here imports a model.
databases.provide()
