"""What files hold: captures, lab results, histograms. It knows nobody else."""
