"""Pure decisions of Trainmaster: values in, values out. No clock, no chance, no input or output."""
