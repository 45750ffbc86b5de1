"""What the platform and the agent of a node say of that node: its description, its wanted and its observed state.

`trainmaster_wire.conversion` makes protobuf messages of these values, and values of the messages, field by field of the
same name.
"""
