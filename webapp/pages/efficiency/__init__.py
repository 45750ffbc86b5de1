"""The efficiency of the cluster: who uses their GPUs how well."""
