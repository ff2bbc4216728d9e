"""The planner's sweep: which random_page_cost would have chosen the plans that ran fastest."""
