"""How a model is divided over many GPUs: memory, step time, and the plan that suits."""
