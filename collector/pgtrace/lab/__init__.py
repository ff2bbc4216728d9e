"""The laboratory: published experiments, each repeated by one command."""
