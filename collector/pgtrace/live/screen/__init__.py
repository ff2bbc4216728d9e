"""The live screen: a process without privileges, which draws what the one that traces tells it."""
