"""Reading runs against each other: settings, curves and final numbers."""
