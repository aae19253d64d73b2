"""Files of new rows, and the tasks and frames that produce them."""
