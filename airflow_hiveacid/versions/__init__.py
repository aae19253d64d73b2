"""Past versions of tables: what is known of them, who keeps their files, and how they are found."""
