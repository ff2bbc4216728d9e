"""What the experiments share: servers, storages, runs in random order, and their undoing."""
