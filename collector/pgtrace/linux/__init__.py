"""What pgtrace asks of the kernel beside BPF."""
