"""A parameter server for jobs with roles: workers pull parameters and push gradients, as fast as the mode allows.

    # the role `server`                         # the role `worker`
    server = Server(model.state_dict(), SGD)    client = Client(addresses("server"), index())
    server.serve()                              while (step := client.pull(model)) is not None: … client.push(model)

docs/how-to/train-with-a-parameter-server.md is the guide.
"""

from trainmaster.parameter_server.client import Client
from trainmaster.parameter_server.codecs import CODECS, Codec
from trainmaster.parameter_server.roles import addresses, index
from trainmaster.parameter_server.server import Mode, Server

__all__ = ["CODECS", "Client", "Codec", "Mode", "Server", "addresses", "index"]
