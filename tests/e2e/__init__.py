from tests.support import databases

# Before any module here imports a model.
databases.provide()
