"""Server processes that outlive their parent and can be found again."""
