"""How well a run uses its hardware: peaks, MFU, where its time goes, stragglers, advice and waste."""
