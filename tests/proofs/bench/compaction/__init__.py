"""The cost of compactions, beside what is asked of them."""
